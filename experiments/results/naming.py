"""Names in sentences: looking one up with an error that helps, counting what it stands for, and printing it."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from typing import TypeVar

T = TypeVar("T")


def close_matches(name: str, known: Iterable[str]) -> str:
    """``did you mean lr or lr_decay? ``, or nothing if no known name is close."""
    names = list(known)
    longer = [other for other in names if len(name) > 3 and other.lower().startswith(name.lower())]
    by_lower = {other.lower(): other for other in reversed(names)}
    similar = [by_lower[lower] for lower in difflib.get_close_matches(name.lower(), by_lower, n=3, cutoff=0.5)]
    close = list(dict.fromkeys([*longer, *similar]))[:3]
    return f"did you mean {' or '.join(close)}? " if close else ""


def unknown_name(kind: str, name: str, known: Iterable[str]) -> str:
    """The sentence for a name that is not known: close matches first, then the whole list."""
    names = list(known)
    return f"unknown {kind} '{name}': {close_matches(name, names)}known are {', '.join(names)}"


def look_up(kind: str, name: str, known: Mapping[str, T]) -> T:
    """``known[name]``.

    Raises:
        ValueError: If there is no such name; the message lists what there is.
    """
    if name not in known:
        raise ValueError(unknown_name(kind, name, known))
    return known[name]


def pluralize(number: int, noun: str) -> str:
    """``1 round``, ``2 rounds``."""
    return f"{number} {noun}{'' if number == 1 else 's'}"


def printable(text: object) -> str:
    """A text of somebody else's in one line of a terminal: what would steer the terminal is written as an escape."""
    return "".join(sign if sign.isprintable() else sign.encode("unicode_escape").decode() for sign in str(text))
