"""Argument types, shared arguments and one-line errors of the commands, on top of argparse."""

from __future__ import annotations

import argparse
import atexit
import gc
import io
import os
import re
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NoReturn, TypeVar

from envs.checks import did_you_mean, printable
from experiments.results.files import check_decoded
from experiments.results.naming import look_up
from experiments.scenario import Scenario
from experiments.scenarios import OTHER_COMMANDS, SCENARIOS

EXIT_FAILED = 1
EXIT_BAD_INPUT = 2
EXIT_INTERRUPTED = 130

_LONGEST_LINE = 2_000
_MOST_SEEDS = 10_000

T = TypeVar("T")


class Parser(argparse.ArgumentParser):
    """An ``ArgumentParser`` that raises a ``ValueError`` where argparse would print its usage and exit."""

    def __init__(self, **keywords: Any) -> None:
        super().__init__(allow_abbrev=False, **keywords)

    def parse_args(self, args: Sequence[str] | None = None, namespace: Any = None) -> Any:  # type: ignore[override]
        """Overrides argparse's to suggest flags that may have been meant, and to refuse bytes that are not text."""
        for argument in sys.argv[1:] if args is None else args:
            check_decoded(argument)
        arguments, unknown = self.parse_known_args(args, namespace)
        if unknown:
            hints = [did_you_mean(text.partition("=")[0], _flags(self)) for text in unknown if text.startswith("-")]
            raise ValueError(f"unrecognized arguments: {' '.join(unknown)}; {''.join(hints)}see --help")
        return arguments

    def error(self, message: str) -> NoReturn:
        """Overrides argparse's to raise a ValueError instead of printing the usage."""
        raise ValueError(f"{message}; see --help")


def _flags(parser: argparse.ArgumentParser) -> dict[str, Any]:
    """Flags of a parser and its sub-commands."""
    flags = dict(parser._option_string_actions)
    for action in parser._actions:
        for command in action.choices.values() if isinstance(action.choices, dict) else ():
            flags |= _flags(command)
    return flags


def whole(text: str) -> int:
    """The argparse type of whole numbers."""
    return _converted(int, text, "a whole number, such as 5")


def number(text: str) -> float:
    """The argparse type of numbers."""
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
    """The argparse type of seeds."""
    value = whole(text)
    if not 0 <= value < 2**32:
        raise argparse.ArgumentTypeError(f"{value} is not a seed; seeds are whole numbers from 0 to 2**32 - 1")
    return value


def seeds(text: str) -> tuple[int, ...]:
    """The argparse type of lists of seeds: ``7``, ``1,2,3`` or ``1-10``, both ends included."""
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
    """The argparse type of lists of names: ``bippo`` or ``bippo,fedavg``."""
    if not all(text.split(",")):
        raise argparse.ArgumentTypeError(f"{text!r} has an empty name; separate names by spaces or commas")
    return tuple(text.split(","))


def named_path(text: str) -> Path:
    """The argparse type of paths; refuses an empty text, which ``Path`` takes as the working directory."""
    if not text:
        raise argparse.ArgumentTypeError("the path is empty; name one, or '.' for this folder")
    try:
        return Path(text).expanduser()
    except RuntimeError:  # a home directory that there is not
        hint = f"write ./{text} for a folder of that name"
        raise argparse.ArgumentTypeError(f"{text!r} names a user that there is not; {hint}") from None


def absolute_path(text: str) -> Path:
    """The argparse type of paths that are read after the working directory has changed."""
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


def one_line(error: BaseException) -> str:
    """Returns the message of an error in one line for a terminal, of unexpected errors with their type.

    A very long message is cut in the middle.
    """
    text = printable(" ".join(str(error).split()))
    if len(text) > _LONGEST_LINE:
        text = f"{text[: _LONGEST_LINE // 2]} ... {text[-_LONGEST_LINE // 2 :]}"
    return text if isinstance(error, ValueError | OSError) else f"{type(error).__name__}: {text}"


def print_on_any_terminal() -> None:
    """Makes both streams replace characters that their encoding lacks, such as ±, at which printing would fail."""
    for stream, errors in ((sys.stdout, "replace"), (sys.stderr, "backslashreplace")):
        if isinstance(stream, io.TextIOWrapper):  # notebooks have other streams
            stream.reconfigure(errors=errors)


def collect_rarely() -> None:
    """Looks for garbage rarely in a process that runs one command, and not at all when it ends.

    Imports make hundreds of thousands of objects and hardly any garbage. Looking for it takes a sixth of their time,
    and at the end a second.
    """
    gc.set_threshold(100_000)
    atexit.register(gc.freeze)


def exit_code(run: Callable[[], int]) -> int:
    """Runs a command and returns its exit code; prints errors and interrupts in one line."""
    print_on_any_terminal()
    try:
        code = run()
        sys.stdout.flush()
        return code
    except BrokenPipeError:  # the reader, such as `head`, has ended
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # or Python complains when it flushes
        return EXIT_FAILED
    except (ValueError, OSError) as error:
        return refuse(error)
    except KeyboardInterrupt:
        print("\ninterrupted", file=sys.stderr)
        return EXIT_INTERRUPTED


def refuse(error: BaseException) -> int:
    """Prints an error about the input as one line on stderr; returns its exit code."""
    print(f"error: {one_line(error)}", file=sys.stderr)
    return EXIT_BAD_INPUT
