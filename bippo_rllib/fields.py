"""Checks of settings and of a record that was read from a file, by tables of ranges. Standard library only.

A table maps names to a ``Field`` or to another table. A record has all entries of its table and no others, and is
checked before anything is made of it: a number that asks for gigabytes is refused before it gets them.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any

from bippo_rllib.setting_error import shown

#: Of a float; comparing with it refuses NaN, infinity and integers that no float can hold.
LARGEST = sys.float_info.max


@dataclass(frozen=True)
class Field:
    """One entry.

    Attributes:
        expected: Description for error messages.
        allows: Whether a value is one that the entry may have.
    """

    expected: str
    allows: Callable[[Any], bool]


@dataclass(frozen=True)
class OrNone:
    """An entry that may also be None."""

    table: Field | Table


Table = Mapping[str, "Field | OrNone | Table"]


def whole(low: int, high: int) -> Field:
    """Returns the field of an integer from ``low`` to ``high``."""
    return Field(
        f"a whole number from {low} to {high}",
        lambda value: isinstance(value, int) and not isinstance(value, bool) and low <= value <= high,
    )


def real(low: float = -LARGEST, high: float = LARGEST, *, above: bool = False) -> Field:
    """Returns the field of a finite number from ``low``, which is itself too low if ``above``, to ``high``."""
    least = [f"above {low:g}" if above else f"at least {low:g}"] * (low > -LARGEST)
    limits = " and ".join([*least, *[f"at most {high:g}"] * (high < LARGEST)])
    return Field(
        f"a finite number {limits}".rstrip(),
        lambda value: (
            isinstance(value, int | float)
            and not isinstance(value, bool)
            and (low < value if above else low <= value)
            and value <= high
            and (isinstance(value, float) or abs(value) <= 2**53)  # which float64 holds, and torch takes
        ),
    )


POSITIVE, SHARE = real(0.0, above=True), real(0.0, 1.0)
#: The numbers among PPO's settings, by their names in RLlib.
PPO_FIELDS: Mapping[str, Field] = {
    "lr": POSITIVE,
    "gamma": SHARE,
    "lambda_": SHARE,
    "clip_param": POSITIVE,
    "vf_loss_coeff": real(0.0),
    "vf_clip_param": POSITIVE,
    "entropy_coeff": real(0.0),
    "grad_clip": POSITIVE,
}
#: Those that None turns off.
PPO_OPTIONAL = ("vf_clip_param", "grad_clip")


def one_of(*values: str) -> Field:
    """Returns the field of one of some texts."""
    return Field(f"one of {', '.join(values)}", lambda value: isinstance(value, str) and value in values)


BOOLEAN = Field("true or false", lambda value: isinstance(value, bool))
TEXT = Field("a text", lambda value: isinstance(value, str))
#: It can be named in a message of one line.
KEY = Field("a text without line breaks", lambda value: isinstance(value, str) and value.isprintable())


NAMES = Field(
    "a list of different names",
    lambda value: (
        isinstance(value, list)
        and all(isinstance(name, str) and is_unicode(name) for name in value)
        and len(set(value)) == len(value)
    ),
)


def is_unicode(name: str) -> bool:
    """Whether ``name`` can be written as UTF-8, by which the initial weights of a policy are keyed."""
    return not any("\ud800" <= character <= "\udfff" for character in name)


def check_record(record: Any, table: Table, name: str = "the record") -> None:
    """Checks a record.

    Raises:
        ValueError: Naming the first entry that is missing, unknown or none that it may be, in one line.
    """
    if not isinstance(record, Mapping):
        raise ValueError(f"{name} is {shown(record)}; expected entries {', '.join(table)}")
    check_names(record, table, name)
    for key, field in table.items():
        _check_entry(record[key], field, key)


def check_names(found: Collection[Any], expected: Collection[str], name: str) -> None:
    """Raises a ValueError where ``found`` are not the names that ``expected`` are, in any order."""
    missing, unknown = set(expected) - set(found), set(found) - set(expected)
    if missing:
        raise ValueError(f"{name} lacks {', '.join(sorted(missing))}")
    if unknown:
        raise ValueError(f"{name} has {shown(sorted(map(str, unknown)))}, which nothing reads")


def _check_entry(value: Any, field: Field | OrNone | Table, name: str) -> None:
    if isinstance(field, OrNone):
        if value is None:
            return
        field = field.table
    if not isinstance(field, Field):
        check_record(value, field, name)
    elif not field.allows(value):
        raise ValueError(f"{name} is {shown(value)}; expected {field.expected}")
