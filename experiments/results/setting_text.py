"""Values of settings as text and back: Python literals, which keep every bit of a number, and tuples beside lists."""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping, Sequence
from typing import Any


def literal(text: str) -> Any:
    """Returns the value of a Python literal, of inf or nan, or else the text itself."""
    try:
        return float(text) if text.lower().lstrip("+-") in ("inf", "nan") else ast.literal_eval(text)
    # TypeError for an unhashable key of a dict, the last two for literals that are nested too deep.
    except (ValueError, SyntaxError, TypeError, RecursionError, MemoryError):
        return text


def describe(settings: Mapping[str, Any]) -> str:
    """Returns searched settings as ``epsilon_decay=0.93 lr=0.00042``, sorted by key, numbers to the last bit."""
    return " ".join(f"{key}={value}" for key, value in sorted(settings.items()))


def described(setting: str) -> dict[str, Any]:
    """Returns the settings that ``describe`` has written."""
    pairs = (item.partition("=") for item in re.split(r" (?=[\w.]+=)", setting) if item)
    return {key: literal(text) for key, _, text in pairs}


def as_text(draws: Sequence[Mapping[str, Any]]) -> list[dict[str, str]]:
    """Returns the settings that a search draws as run.json holds them."""
    return [{key: repr(value) for key, value in drawn.items()} for drawn in draws]


def from_text(draws: Sequence[Mapping[str, str]]) -> tuple[dict[str, Any], ...]:
    """Returns the settings that ``as_text`` has written."""
    return tuple({key: literal(text) for key, text in drawn.items()} for drawn in draws)
