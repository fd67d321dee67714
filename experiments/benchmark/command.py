"""``python -m experiments.benchmark BENCHMARK``: what a round costs on this machine, and what for."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path

from experiments.benchmark import churn, fl, memory, null_clients
from experiments.benchmark.result import Result
from experiments.benchmark.rl import command as rl
from experiments.cli import EXIT_FAILED, Parser, exit_code, named_path
from experiments.results.files import check_writable
from experiments.results.run_info import command_line


def parser() -> Parser:
    """Every sub-command sets ``run``: from the arguments to a ``Result``, or, in ``rl``, to the exit code."""
    result = Parser(prog="bippo benchmark", description="What a round costs on this machine.")
    commands = result.add_subparsers(required=True, dest="benchmark", metavar="BENCHMARK")
    rl.add_parser(commands)
    for module in (fl, null_clients, memory, churn):
        command = module.add_parser(commands)
        command.add_argument("--json", type=named_path, metavar="FILE", help="also write what was found to FILE")
    return result


def main(argv: Sequence[str] | None = None) -> int:
    """Runs one benchmark; returns the exit code (0, 1 failed or too much, 2 bad input, 130 interrupted)."""
    return exit_code(partial(_main, sys.argv[1:] if argv is None else argv))


def _main(argv: Sequence[str]) -> int:
    arguments = parser().parse_args(argv)
    arguments.command = command_line("python -m experiments.benchmark", argv)
    return arguments.run(arguments) if arguments.benchmark == "rl" else _print_result(arguments)


def _print_result(arguments: argparse.Namespace) -> int:
    file: Path | None = arguments.json
    if file:
        check_writable(file.parent, "--json: folder")
        file.parent.mkdir(parents=True, exist_ok=True)
    result: Result = arguments.run(arguments)
    if file:
        file.write_text(json.dumps({"command": arguments.command, **asdict(result)}, indent=2) + "\n")
    print(result)
    return EXIT_FAILED if result.failures else 0
