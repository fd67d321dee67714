"""A setting of a federation: default, values, unit, meaning and readers. Checks and docs use the same object."""

from __future__ import annotations

import dataclasses
import textwrap
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

from envs.checks import SettingError, flag, not_negative, one_of, one_per_client, optional_path, positive, share, whole
from envs.imports import check_import, is_import

T = TypeVar("T")
#: Raises ``SettingError`` for a bad value, given the setting's name, the value and all settings.
Check = Callable[[str, Any, Mapping[str, Any]], None]
#: Returns why nothing reads a setting under the other settings, and what to change; None if something reads it.
Unread = Callable[[Mapping[str, Any]], str | None]
_KEY = "setting"


@dataclass(frozen=True)
class Kind:
    """The values that a setting takes."""

    check: Check
    values: str  #: In words.


@dataclass(frozen=True)
class Setting:
    """Properties of a setting beside its name and default."""

    kind: Kind
    text: str  #: Its meaning.
    unit: str = ""
    unread: Unread | None = None


def setting(default: Any, kind: Kind, text: str, *, unit: str = "", unread: Unread | None = None) -> Any:
    """Declares a field of a dataclass as a setting."""
    return dataclasses.field(default=default, metadata={_KEY: Setting(kind, " ".join(text.split()), unit, unread)})


def settings_of(config: Any) -> dict[str, Setting]:
    """Returns the settings of a dataclass, or of an instance of one, by name."""
    return {field.name: field.metadata[_KEY] for field in dataclasses.fields(config)}


def check_each(config: Any) -> None:
    """Checks each setting of a dataclass's instance.

    Raises:
        SettingError: For the first setting with a value that it cannot have.
    """
    settings = vars(config)
    for name, each in settings_of(config).items():
        each.kind.check(name, settings[name], settings)


def documented(config_class: type[T]) -> type[T]:
    """Adds the settings to the docstring of a dataclass."""
    lines = ["", "    Args:"]
    for name, each in settings_of(config_class).items():
        unit = f" In {each.unit}." if each.unit else ""
        text = f"{name}: {each.text}{unit} Values: {each.kind.values}."
        lines += textwrap.wrap(text, 112, initial_indent=" " * 8, subsequent_indent=" " * 12)
    config_class.__doc__ = f"{config_class.__doc__}\n" + "\n".join(lines) + "\n    "
    return config_class


def only_with(name: str, *choices: str) -> Unread:
    """Returns the ``unread`` of a setting that is read only if the setting ``name`` is one of ``choices``."""
    known = " or ".join(map(repr, choices))
    return lambda settings: (
        None
        if settings[name] in choices
        else f"with {name}={settings[name]!r} nothing reads it, only with {known}; leave it out"
    )


def only_if(name: str) -> Unread:
    """Returns the ``unread`` of a setting that is read only if the setting ``name`` is given."""
    return lambda settings: None if settings[name] else f"without {name} nothing reads it; give both, or leave it out"


def unless(name: str) -> Unread:
    """Returns the ``unread`` of a setting that is not read if the setting ``name`` is given."""
    return lambda settings: (
        f"{name}, which replaces it, is given too; leave one of them out" if settings[name] is not None else None
    )


def or_none(kind: Kind) -> Kind:
    """Returns a kind that also takes None."""
    return Kind(
        lambda name, value, all_: None if value is None else kind.check(name, value, all_), f"{kind.values}, None"
    )


def one_for_each_client(kind: Kind) -> Kind:
    """Returns the kind of a tuple with one value for each client."""

    def check(name: str, value: Any, settings: Mapping[str, Any]) -> None:
        for each in one_per_client(name, value, settings["num_clients"]):
            kind.check(name, each, settings)

    return Kind(check, f"a tuple with one for each client: {kind.values}")


def number_or_one_per_client(kind: Kind) -> Kind:
    """Returns the kind of one value for all clients, or a tuple of one for each."""
    every = one_for_each_client(kind)

    def check(name: str, value: Any, settings: Mapping[str, Any]) -> None:
        (every if isinstance(value, tuple) else kind).check(name, value, settings)

    return Kind(check, f"{kind.values}; or a tuple with one for each client")


def tuple_of(what: str) -> Kind:
    """Returns the kind of a tuple whose entries are checked elsewhere."""

    def check(name: str, value: Any, settings: Mapping[str, Any]) -> None:
        if not isinstance(value, tuple):
            raise SettingError(name, value, f"it must be a tuple of {what}")

    return Kind(check, f"a tuple of {what}")


def choice(choices: Iterable[str], *, custom: bool = False) -> Kind:
    """Returns the kind of one of some names, or with ``custom`` also ``MODULE:NAME``, a custom function."""
    names = (*choices, *(["MODULE:NAME"] if custom else []))

    def check(name: str, value: Any, settings: Mapping[str, Any]) -> None:
        if custom and is_import(value):
            check_import(name, value)
        else:
            one_of(name, value, names)

    return Kind(check, ", ".join(f"`{name}`" for name in names))


def simple(check: Callable[[str, Any], None], values: str) -> Kind:
    """Returns a kind whose check needs no other settings."""
    return Kind(lambda name, value, settings: check(name, value), values)


NATURAL = simple(partial(whole, least=1), "a whole number of at least 1")
COUNT = simple(partial(whole, least=0), "a whole number of at least 0")
POSITIVE = simple(positive, "a number above 0")
NOT_NEGATIVE = simple(not_negative, "a number of at least 0")
SHARE = simple(share, "from 0 to 1")
FLAG = simple(flag, "True or False")
PATH = simple(optional_path, "a path")
