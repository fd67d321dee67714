"""Types of the commands' arguments for argparse, and arguments that several commands have."""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

from experiments.results.naming import look_up
from experiments.scenario import Scenario
from experiments.scenarios import OTHER_COMMANDS, SCENARIOS

_MOST_SEEDS = 10_000

T = TypeVar("T")


def whole(text: str) -> int:
    """Parses a whole number."""
    return _converted(int, text, "a whole number, such as 5")


def number(text: str) -> float:
    """Parses a number."""
    return _converted(float, text, "a number, such as 0.5")


def _converted(kind: Callable[[str], T], text: str, what: str) -> T:
    try:
        return kind(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not {what}") from None


def at_least(least: int) -> Callable[[str], int]:
    """Returns the argparse type of whole numbers from ``least``."""

    def checked(text: str) -> int:
        value = whole(text)
        if value < least:
            raise argparse.ArgumentTypeError(f"{value} is too small; it must be at least {least}")
        return value

    return checked


def seed(text: str) -> int:
    """Parses a seed."""
    value = whole(text)
    if not 0 <= value < 2**32:
        raise argparse.ArgumentTypeError(f"{value} is not a seed; seeds are whole numbers from 0 to 2**32 - 1")
    return value


def seeds(text: str) -> tuple[int, ...]:
    """Parses seeds: ``7``, ``1,2,3`` or ``1-10``, both ends included."""
    found: list[int] = []
    for part in text.split(","):
        first, dash, last = part.partition("-")
        if not re.fullmatch(r"\d+(-\d+)?|-\d+", part):
            raise argparse.ArgumentTypeError(f"{part!r} is no seed; give whole numbers, such as 1 2 3, 1,2,3 or 1-10")
        ends = (seed(first), seed(last)) if first and dash else (seed(part),)
        if ends[-1] < ends[0]:
            raise argparse.ArgumentTypeError(f"{part} counts down; give the lower seed first: {last}-{first}")
        if ends[-1] - ends[0] >= _MOST_SEEDS:
            raise argparse.ArgumentTypeError(f"{part} has more than {_MOST_SEEDS:,} seeds; give a shorter range")
        found += range(ends[0], ends[-1] + 1)
    return tuple(found)


def names(text: str) -> tuple[str, ...]:
    """Parses names: ``bippo`` or ``bippo,fedavg``."""
    if not all(text.split(",")):
        raise argparse.ArgumentTypeError(f"{text!r} has an empty name; separate names by spaces or commas")
    return tuple(text.split(","))


def named_path(text: str) -> Path:
    """Parses a path; refuses an empty text, which ``Path`` takes as the working directory."""
    if not text:
        raise argparse.ArgumentTypeError("the path is empty; name one, or '.' for this folder")
    try:
        return Path(text).expanduser()
    except RuntimeError:  # a home directory that there is not
        hint = f"write ./{text} for a folder of that name"
        raise argparse.ArgumentTypeError(f"{text!r} names a user that there is not; {hint}") from None


def absolute_path(text: str) -> Path:
    """Parses a path that is read after the working directory has changed."""
    return named_path(text).resolve()


def _scenario(name: str) -> Scenario:
    if name in OTHER_COMMANDS:
        raise argparse.ArgumentTypeError(f"{name} is a command of its own: {OTHER_COMMANDS[name][0]}")
    try:
        return look_up("scenario", name, SCENARIOS)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def add_scenario(container: Any, default: str) -> None:
    """Adds ``--scenario NAME``, a ``Scenario``, to a parser or a group of one."""
    container.add_argument(
        "--scenario",
        type=_scenario,
        default=SCENARIOS[default],
        metavar="NAME",
        help=f"{', '.join(SCENARIOS)}; default: {default}",
    )


def add_data_dir(container: Any) -> None:
    """Adds ``--data-dir DIR``, an absolute path or None."""
    container.add_argument(
        "--data-dir", type=absolute_path, metavar="DIR", help="folder of the data; default: $BIPPO_DATA"
    )


def distinct(flag: str, values: Sequence[T]) -> tuple[T, ...]:
    """Returns ``values`` as a tuple; raises a ValueError for the first that is there twice."""
    repeated = [value for index, value in enumerate(values) if value in values[:index]]
    if repeated:
        raise ValueError(f"{flag} has {repeated[0]} twice; name each one once")
    return tuple(values)
