"""Exports the selector in a checkpoint as one file: ``bippo export CHECKPOINT OUT``."""

from __future__ import annotations

import argparse
import io
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

from bippo_rllib.federated.client_selector import ClientSelector


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        """Overrides argparse's to leave out the usage."""
        self.exit(2, f"error: {message}; see --help\n")


def parser() -> argparse.ArgumentParser:
    """Returns the parser of the command."""
    result = _Parser(prog="bippo export", description=__doc__.partition(":")[0] + ".")
    result.add_argument("checkpoint", type=Path, help="a trial's folder or a checkpoint")
    result.add_argument("out", type=Path, help="the file to write, such as selector.safetensors")
    return result


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command and returns its exit code."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")  # a path may have characters that the terminal lacks
    parsed = parser().parse_args(arguments)
    if parsed.out.exists():
        print(f"error: {parsed.out} is there already; name another file", file=sys.stderr)
        return 2
    try:
        selector = ClientSelector.load(parsed.checkpoint)
        selector.save(parsed.out)
    except (ValueError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    print(f"{parsed.out}: {selector!r}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
