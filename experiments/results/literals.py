"""Values of settings as text and back: Python literals, which keep every bit of a number and tell tuples from lists."""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from typing import Any


def literal(text: str) -> Any:
    """A Python literal, or inf, nan, or the text itself."""
    if text.lower().lstrip("+-") in ("inf", "nan"):
        return float(text)
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError):
        return text


def as_text(draws: Sequence[Mapping[str, Any]]) -> list[dict[str, str]]:
    """The settings that a search draws, for run.json."""
    return [{key: repr(value) for key, value in drawn.items()} for drawn in draws]


def from_text(draws: Sequence[Mapping[str, str]]) -> tuple[dict[str, Any], ...]:
    """What ``as_text`` was given."""
    return tuple({key: literal(text) for key, text in drawn.items()} for drawn in draws)
