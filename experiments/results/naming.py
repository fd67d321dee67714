"""Names in messages: looked up with an error that lists the known ones, and pluralized."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TypeVar

from envs.checks import did_you_mean

T = TypeVar("T")


def unknown_name(kind: str, name: str, known: Iterable[str]) -> str:
    """Returns the message for an unknown name: close matches first, then all known names."""
    names = list(known)
    return f"unknown {kind} '{name}': {did_you_mean(name, names)}known are {', '.join(names)}"


def look_up(kind: str, name: str, known: Mapping[str, T]) -> T:
    """Returns ``known[name]``.

    Raises:
        ValueError: If there is no such name; the message lists the known ones.
    """
    if name not in known:
        raise ValueError(unknown_name(kind, name, known))
    return known[name]


def pluralize(number: int, noun: str) -> str:
    """Returns ``1 round``, ``2 rounds``."""
    return f"{number} {noun}{'' if number == 1 else 's'}"
