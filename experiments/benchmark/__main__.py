"""``bippo benchmark rl`` and ``fl``: what a round costs on this machine, beside other libraries."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from functools import partial
from typing import Any

from experiments.argument_types import add_data_dir, add_scenario, at_least, named_path
from experiments.cli import Parser, exit_code
from experiments.results.files import check_writable
from experiments.results.run_info import command_line

_RL = """\
What reinforcement learning adds to a round: algo.train() of BIPPO, also with the prior and with the set term, of the
central network and of stock RLlib on an environment that costs nothing; and what has to be computed at least, by our
kernel and by TorchRL's MultiAgentMLP (pip install torchrl), on ready tensors.
"""
_FL = """\
A round of federated training, without evaluation where none is named: a bare PyTorch loop, our executors, and the same
clients in pfl and in Flower's simulation (pip install pfl flwr), each in another process.
"""
_TURNS = "Implementations take turns, so that a busy machine affects all alike; ratios are medians over the turns."


def parser() -> Parser:
    """Returns the parser; what is measured is imported only when it runs."""
    result = Parser(prog="bippo benchmark", description="What a round costs on this machine.")
    commands = result.add_subparsers(required=True, dest="benchmark", metavar="BENCHMARK")
    _add_rl(commands.add_parser("rl", help="what reinforcement learning adds to a round", description=_RL + _TURNS))
    _add_fl(commands.add_parser("fl", help="a round of federated training", description=_FL + _TURNS))
    for command in commands.choices.values():
        add = command.add_argument
        add("--seconds", type=at_least(0), default=90, metavar="S", help="for the turns of a table; default: 90")
        add("--only", nargs="+", metavar="NAME", help="implementations, as the table names them; default: all")
        add("--output", type=named_path, metavar="DIR", help="also write tables as JSON, and the figure of rl, to DIR")
    return result


def _add_rl(command: argparse.ArgumentParser) -> None:
    add, clients = command.add_argument, [20, 100, 1000]
    add("--clients", nargs="+", type=at_least(1), default=clients, metavar="N", help="default: 20 100 1000")
    trained = "clients that a round trains, numbers or 'all'; default: 20 all"
    add("--trained", nargs="+", type=_number_or_all, default=[20, None], metavar="K", help=trained)
    add("--stock-max", type=at_least(0), default=100, metavar="N", help="most clients for stock RLlib; default: 100")


def _add_fl(command: argparse.ArgumentParser) -> None:
    add_scenario(command, default="digits")
    add_data_dir(command)
    add = command.add_argument
    add("--clients", type=at_least(1), default=3, metavar="K", help="clients that a round trains; default: 3")
    add("--epochs", type=at_least(1), default=5, metavar="N", help="local epochs; default: 5")
    add("--actors", type=at_least(1), default=2, metavar="N", help="Ray actors; default: 2")
    add("--device", default="cpu", help="of the bare loop and the serial executor; default: cpu")
    only = "cpu counts CPU time, of what trains in one process; default: wall"
    add("--clock", choices=("wall", "cpu"), default="wall", help=only)
    add("--pfl-python", type=named_path, metavar="FILE", help="a Python that has pfl; default: this one")


def _number_or_all(text: str) -> int | None:
    return None if text == "all" else at_least(1)(text)


def main(argv: Sequence[str] | None = None) -> int:
    """Runs one benchmark; returns the exit code (0, 1 failed, 2 bad input, 130 interrupted)."""
    return exit_code(partial(_main, sys.argv[1:] if argv is None else argv))


def _main(argv: Sequence[str]) -> int:
    arguments: Any = parser().parse_args(argv)
    arguments.command = command_line("bippo benchmark", argv)
    if arguments.output:
        check_writable(arguments.output, "--output: folder")
        arguments.output.mkdir(parents=True, exist_ok=True)
    if arguments.benchmark == "rl":
        from experiments.benchmark.rl import rl as run
    else:
        from experiments.benchmark.fl import fl as run
    run(arguments)
    return 0


if __name__ == "__main__":
    sys.exit(main())
