"""Names in messages: looked up with an error that lists the known ones, pluralized, and printed safely."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from typing import TypeVar

T = TypeVar("T")


def close_matches(name: str, known: Iterable[str]) -> str:
    """Returns ``did you mean lr or lr_decay? ``, or nothing if no known name is close."""
    names = list(known)
    longer = [other for other in names if len(name) > 3 and other.lower().startswith(name.lower())]
    by_lower = {other.lower(): other for other in reversed(names)}
    similar = [by_lower[lower] for lower in difflib.get_close_matches(name.lower(), by_lower, n=3, cutoff=0.5)]
    close = list(dict.fromkeys([*longer, *similar]))[:3]
    return f"did you mean {' or '.join(close)}? " if close else ""


def unknown_name(kind: str, name: str, known: Iterable[str]) -> str:
    """Returns the message for an unknown name: close matches first, then the whole list."""
    names = list(known)
    return f"unknown {kind} '{name}': {close_matches(name, names)}known are {', '.join(names)}"


def look_up(kind: str, name: str, known: Mapping[str, T]) -> T:
    """Returns ``known[name]``.

    Raises:
        ValueError: If there is no such name; the message lists what there is.
    """
    if name not in known:
        raise ValueError(unknown_name(kind, name, known))
    return known[name]


def pluralize(number: int, noun: str) -> str:
    """Returns ``1 round`` or ``2 rounds``."""
    return f"{number} {noun}{'' if number == 1 else 's'}"


def printable(text: object) -> str:
    """Returns a user's text in one line of a terminal, with control characters written as escapes."""
    return "".join(sign if sign.isprintable() else sign.encode("unicode_escape").decode() for sign in str(text))
