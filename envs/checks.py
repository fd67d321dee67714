"""Checks of settings, and the error that all of them raise: which setting, what was found and what is expected."""

from __future__ import annotations

import difflib
import math
import numbers
import os
import re
import reprlib
from collections.abc import Collection, Iterable
from pathlib import Path
from typing import Any

_HUGE = 10**300
_WITH_UNIT = re.compile(r"([-+]?\d*\.?\d+)\s*(%|[mkMG]?)(?:J|Hz)?")
_FACTORS = {"": 1.0, "%": 1e-2, "m": 1e-3, "k": 1e3, "M": 1e6, "G": 1e9}
_SHOWN = reprlib.Repr()
_SHOWN.maxstring = _SHOWN.maxother = 200
_SHOWN.maxtuple = _SHOWN.maxlist = 20


class SettingError(ValueError):
    """A setting has a value that it cannot have, or not together with others.

    Attributes:
        field: Name of the setting.
        value: The value that was found.
        expected: The rest of the sentence: what is expected, and how to fix it.
    """

    def __init__(self, field: str, value: Any, expected: str) -> None:
        super().__init__(field, value, expected)
        self.field, self.value, self.expected = field, value, expected

    def __str__(self) -> str:
        return self.worded(self.field)

    def worded(self, name: str) -> str:
        """Returns the message with the setting under another name, such as that of a flag."""
        return f"{name} is {_shown(self.value)}; {self.expected}"


class Shortage(ValueError):
    """A federation needs more samples or joules than there are; ``envs.fitting`` finds settings that fit.

    Attributes:
        splits: Of ``train`` and ``test`` those that have too few samples, if that is what is short.
    """

    def __init__(self, text: str, splits: Collection[str] = ()) -> None:
        super().__init__(text)
        self.splits = tuple(splits)


def _shown(value: Any) -> str:
    if isinstance(value, int) and abs(value) >= 2**63:
        return f"a number of {len(str(abs(value)))} digits"
    return _SHOWN.repr(value)


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Returns ``did you mean lr or lr_decay? ``, or an empty text if no known name is close."""
    names = list(known)
    longer = [each for each in names if len(name) > 3 and each.lower().startswith(name.lower())]
    by_lower = {each.lower(): each for each in reversed(names)}
    similar = [by_lower[lower] for lower in difflib.get_close_matches(name.lower(), by_lower, n=3, cutoff=0.5)]
    close = longer[:3] or similar or [each for each in names if each in name]
    return f"did you mean {' or '.join(close)}? " if close else ""


def printable(text: object) -> str:
    r"""Returns ``text`` in one line: line ends and all else that would steer a terminal are written out, as ``\n``.

    File names may hold anything, including bytes that are not text.
    """
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in str(text))


def described(error: BaseException) -> str:
    """Returns the kind and text of an error in one line, such as ``KeyError: 'x'``; ``MemoryError`` without a text."""
    return " ".join(f"{type(error).__name__}: {error}".split()).removesuffix(":")


def first_line(error: BaseException) -> str:
    """Returns the first line of an error's text, or its kind where it has none; other libraries add traces."""
    return (str(error).strip() or type(error).__name__).splitlines()[0]


def one_of(name: str, value: Any, choices: Any) -> None:
    """Checks that ``value`` is one of ``choices``."""
    if value not in tuple(choices):  # a tuple also takes what has no hash
        raise SettingError(name, value, f"choose one of {', '.join(choices)}")


def whole(name: str, value: Any, least: int) -> None:
    """Checks that ``value`` is a whole number of at least ``least`` that fits into 64 bits."""
    if isinstance(value, bool) or not isinstance(value, numbers.Integral) or value < least:
        raise SettingError(name, value, f"it must be a whole number of at least {least}")
    if int(value) >= 2**63:
        raise SettingError(name, int(value), "it must be below 2**63")


def number(name: str, value: Any) -> None:
    """Checks that ``value`` is a number that fits into a float."""
    if isinstance(value, bool) or not isinstance(value, numbers.Real):
        found = _WITH_UNIT.fullmatch(value) if isinstance(value, str) else None
        plain = f" without unit: {float(found[1]) * _FACTORS[found[2]]:.12g}" if found else ""
        raise SettingError(name, value, f"it must be a number{plain}")
    if isinstance(value, int) and abs(value) > _HUGE:
        raise SettingError(name, value, "it must be a number that a float can hold")


def positive(name: str, value: Any) -> None:
    """Checks that ``value`` is a finite number above 0."""
    number(name, value)
    if not (math.isfinite(value) and value > 0):
        raise SettingError(name, value, "it must be a finite number above 0")


def not_negative(name: str, value: Any) -> None:
    """Checks that ``value`` is a finite number of at least 0."""
    number(name, value)
    if not (math.isfinite(value) and value >= 0):
        raise SettingError(name, value, "it must be a finite number of at least 0")


def share(name: str, value: Any) -> None:
    """Checks that ``value`` lies in [0, 1]."""
    number(name, value)
    if not 0.0 <= value <= 1.0:
        raise SettingError(name, value, "it must lie in [0, 1]")


def flag(name: str, value: Any) -> None:
    """Checks that ``value`` is True or False."""
    if not isinstance(value, bool):
        raise SettingError(name, value, "it must be True or False")


def optional_path(name: str, value: Any) -> None:
    """Checks that ``value`` is the path of a file or folder, or None."""
    if value is not None and not isinstance(value, str | os.PathLike):
        raise SettingError(name, value, "it must be a path")


def absolute_path(name: str, value: str | os.PathLike[str]) -> str:
    """Returns a path in full, ``~`` replaced; other processes have other working directories."""
    try:
        return str(Path(value).expanduser().resolve())
    except (OSError, RuntimeError, ValueError) as error:  # no such user, a circle of links, a zero in it
        raise SettingError(name, os.fspath(value), f"the path leads nowhere: {printable(error)}") from error


def one_per_client(name: str, values: Any, num_clients: int) -> tuple[Any, ...]:
    """Checks that ``values`` is a tuple with an entry per client, and returns it."""
    if not isinstance(values, tuple):
        raise SettingError(name, values, "it must have a number for each client, such as [7e8,1.5e9] for two")
    if len(values) != num_clients:
        raise SettingError(name, values, f"it has {len(values)} entries, but num_clients={num_clients}")
    return values
