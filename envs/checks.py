"""Checks of settings; every error is one line that names the setting, what was found and what is expected."""

from __future__ import annotations

import math
import numbers
import os
from pathlib import Path
from typing import Any

_HUGE = 10**300


class Shortage(ValueError):
    """A federation needs more samples or joules than there are; ``envs.fitting`` finds what would fit."""


def one_line(text: object) -> str:
    r"""Returns ``text`` with line ends and all else that a terminal does not show written out, as ``\n``.

    File names may hold anything, bytes that are no text among it.
    """
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in str(text))


def described(error: BaseException) -> str:
    """Returns the kind and text of an error in one line, such as ``KeyError: 'x'``; ``MemoryError`` without a text."""
    return " ".join(f"{type(error).__name__}: {error}".split()).removesuffix(":")


def one_of(name: str, value: Any, choices: Any) -> None:
    """``value`` is one of ``choices``."""
    if value not in tuple(choices):  # a tuple also takes what has no hash
        raise ValueError(f"{name} is {value!r}; choose one of {', '.join(choices)}")


def whole(name: str, value: Any, least: int) -> None:
    """``value`` is a whole number of at least ``least`` that fits into 64 bits."""
    if isinstance(value, bool) or not isinstance(value, numbers.Integral) or value < least:
        raise ValueError(f"{name} is {value!r}; it must be a whole number of at least {least}")
    if int(value) >= 2**63:
        raise ValueError(f"{name} is a number of {len(str(value))} digits; it must be below 2**63")


def number(name: str, value: Any) -> None:
    """``value`` is a number that fits into a float."""
    if isinstance(value, bool) or not isinstance(value, numbers.Real):
        raise ValueError(f"{name} is {value!r}; it must be a number")
    if isinstance(value, int) and abs(value) > _HUGE:
        raise ValueError(f"{name} is beyond 1e300; it must be a number that a float can hold")


def positive(name: str, value: Any) -> None:
    """``value`` is a finite number above 0."""
    number(name, value)
    if not (math.isfinite(value) and value > 0):
        raise ValueError(f"{name} is {value!r}; it must be a finite number above 0")


def not_negative(name: str, value: Any) -> None:
    """``value`` is a finite number of at least 0."""
    number(name, value)
    if not (math.isfinite(value) and value >= 0):
        raise ValueError(f"{name} is {value!r}; it must be a finite number of at least 0")


def share(name: str, value: Any) -> None:
    """``value`` lies in [0, 1]."""
    number(name, value)
    if not 0.0 <= value <= 1.0:
        raise ValueError(f"{name} is {value}; it must lie in [0, 1]")


def flag(name: str, value: Any) -> None:
    """``value`` is True or False."""
    if not isinstance(value, bool):
        raise ValueError(f"{name} is {value!r}; it must be True or False")


def optional_path(name: str, value: Any) -> None:
    """``value`` is the path of a file or folder, or None."""
    if value is not None and not isinstance(value, str | os.PathLike):
        raise ValueError(f"{name} is {value!r}; it must be a path")


def absolute_path(name: str, value: str | os.PathLike[str]) -> str:
    """Returns a path in full, ``~`` replaced; other processes have other working directories."""
    try:
        return str(Path(value).expanduser().resolve())
    except (OSError, RuntimeError, ValueError) as error:  # no such user, a circle of links, a zero in it
        raise ValueError(f"{name} is {os.fspath(value)!r}, which leads nowhere: {one_line(error)}") from error


def one_per_client(name: str, values: Any, num_clients: int) -> tuple[Any, ...]:
    """``values`` is a tuple with an entry per client, and is returned."""
    if not isinstance(values, tuple):
        raise ValueError(f"{name} is {values!r}; it must be a tuple with one number per client")
    if len(values) != num_clients:
        raise ValueError(f"{name} has {len(values)} entries; there are num_clients={num_clients}")
    return values
