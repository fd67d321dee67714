"""The error of a setting, and what messages show of values and names. ``envs.checks`` has that of a federation."""

from __future__ import annotations

import difflib
import reprlib
from collections.abc import Iterable
from typing import Any


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
        return f"{self.field} is {shown(self.value)}; {self.expected}"


def shown(value: Any) -> str:
    """Returns what a message shows of a value: one line, and of an array or a list the first few entries."""
    return " ".join(reprlib.repr(value).split())


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Returns ``; did you mean lr?``, or an empty text if no known name is close."""
    return "".join(f"; did you mean {match}?" for match in difflib.get_close_matches(name, list(known), n=1))
