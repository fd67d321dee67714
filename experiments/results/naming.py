"""Names in sentences: looking one up with an error that helps, and counting what it stands for."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from typing import TypeVar

T = TypeVar("T")


def unknown_name(kind: str, name: str, known: Iterable[str]) -> str:
    """The sentence for a name that is not known: close matches first, then the whole list."""
    names = list(known)
    close = difflib.get_close_matches(name, names, n=3, cutoff=0.5)
    hint = f"did you mean {' or '.join(close)}? " if close else ""
    return f"unknown {kind} '{name}': {hint}known are {', '.join(names)}"


def look_up(kind: str, name: str, known: Mapping[str, T]) -> T:
    """`known[name]`, or a ValueError that lists what there is."""
    if name not in known:
        raise ValueError(unknown_name(kind, name, known))
    return known[name]


def counted(number: int, noun: str) -> str:
    """`1 round`, `2 rounds`."""
    return f"{number} {noun}{'' if number == 1 else 's'}"
