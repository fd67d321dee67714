"""What the commands share on top of argparse: a parser, errors in one line, exit codes."""

from __future__ import annotations

import argparse
import atexit
import gc
import io
import os
import sys
from collections.abc import Callable, Sequence
from typing import Any, NoReturn

from envs.checks import did_you_mean, printable
from experiments.results.files import check_decoded

EXIT_FAILED = 1
EXIT_BAD_INPUT = 2
EXIT_INTERRUPTED = 130

_LONGEST_LINE = 2_000


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
    """Returns the flags of a parser and its sub-commands."""
    flags = dict(parser._option_string_actions)
    for action in parser._actions:
        for command in action.choices.values() if isinstance(action.choices, dict) else ():
            flags |= _flags(command)
    return flags


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
