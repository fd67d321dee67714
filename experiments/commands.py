"""``bippo COMMAND``, the same as ``python -m experiments COMMAND``: the commands under one name."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from importlib import import_module

from experiments.cli import print_on_any_terminal, refuse
from experiments.results.naming import unknown_name

#: Command -> module of its ``main``, what ``python -m`` calls it, what it does.
COMMANDS = {
    "tune": ("experiments.tune_bippo", "experiments.tune_bippo", "compares client selection methods on equal joules"),
    "report": ("experiments.report.command", "experiments.report", "tables, report.md and figures of a study"),
    "export": ("bippo_rllib.export", "bippo_rllib.export", "writes the trained selector of a trial as one file"),
    "benchmark": ("experiments.benchmark.command", "experiments.benchmark", "what a round costs on this machine"),
}


def listing() -> str:
    """The commands, a line each."""
    lines = [f"  bippo {name:<9}  python -m {same:<22}  {what}" for name, (_, same, what) in COMMANDS.items()]
    return "\n".join(["commands, by either name; each has --help", *lines])


def main(argv: Sequence[str] | None = None) -> int:
    """Runs a command; returns its exit code."""
    print_on_any_terminal()
    name, *rest = (sys.argv[1:] if argv is None else argv) or ["--help"]
    if name in ("-h", "--help"):
        print(listing())
        return 0
    if name.startswith("-"):
        return refuse(ValueError(f"which command is {name} for? {' or '.join(COMMANDS)}, such as `bippo tune {name}`"))
    if name not in COMMANDS:
        return refuse(ValueError(unknown_name("command", name, COMMANDS)))
    if os.getcwd() not in sys.path:
        sys.path.append(os.getcwd())  # as `python -m` does: there a user's own methods, models and data sets may lie
    if argv is None:
        sys.argv[1:] = rest
    return import_module(COMMANDS[name][0]).main(None if argv is None else rest)
