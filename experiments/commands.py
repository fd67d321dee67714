"""``bippo COMMAND``, the same as ``python -m experiments COMMAND``: the commands under one name."""

from __future__ import annotations

import argparse
import importlib.util
import os
import sys
from collections.abc import Sequence
from importlib import import_module

from bippo_rllib import __version__
from experiments.cli import collect_rarely, print_on_any_terminal, refuse
from experiments.results.naming import unknown_name

#: Command -> module of its ``main``, what ``python -m`` calls it, what it does.
COMMANDS = {
    "tune": ("experiments.tune_bippo", "experiments.tune_bippo", "compares client selection methods on equal joules"),
    "report": ("experiments.report.command", "experiments.report", "tables, report.md and figures of a study"),
    "export": ("bippo_rllib.export", "bippo_rllib.export", "writes the trained selector of a trial as one file"),
    "benchmark": ("experiments.benchmark.__main__", "experiments.benchmark", "what a round costs on this machine"),
    "new": ("experiments.new_study", "experiments.new_study", "writes a folder to start a study of your own from"),
}


def listing() -> str:
    """Returns the commands, a line each."""
    lines = [f"  bippo {name:<9}  {what}" for name, (_, _, what) in COMMANDS.items()]
    same = [f"  bippo {name:<9}  python -m {module}" for name, (_, module, _) in COMMANDS.items()]
    completion = "  bippo completion SHELL   completes commands and flags in bash, zsh or tcsh"
    return "\n".join(
        ["commands; each has --help", *lines, completion, "  bippo --version", "", "the same without installing", *same]
    )


def completion(shells: Sequence[str]) -> int:
    """Prints a script with which a shell completes commands and flags; returns the exit code."""
    if importlib.util.find_spec("shtab") is None:
        return refuse(ValueError("completion needs the package shtab, which is not installed: pip install shtab"))
    import shtab

    if len(shells) != 1 or shells[0] not in shtab.SUPPORTED_SHELLS:
        return refuse(ValueError(f"name one shell: bippo completion {' or '.join(shtab.SUPPORTED_SHELLS)}"))
    parser = argparse.ArgumentParser(prog="bippo")
    commands = parser.add_subparsers()
    for name, (home, _, what) in COMMANDS.items():
        commands.add_parser(name, parents=[import_module(home).parser()], add_help=False, help=what)
    print(shtab.complete(parser, shells[0]))
    return 0


def main(argv: Sequence[str] | None = None) -> int:
    """Runs a command; returns its exit code."""
    print_on_any_terminal()
    name, *rest = (sys.argv[1:] if argv is None else argv) or ["--help"]
    if name in ("-h", "--help"):
        print(listing())
        return 0
    if name == "--version":
        print(f"bippo-rllib {__version__}")
        return 0
    if name == "completion":
        return completion(rest)
    if name.startswith("-"):
        return refuse(ValueError(f"which command is {name} for? {' or '.join(COMMANDS)}, such as `bippo tune {name}`"))
    if name not in COMMANDS:
        return refuse(ValueError(unknown_name("command", name, COMMANDS)))
    if name not in ("export", "new") and importlib.util.find_spec("ray") is None:  # as on a server that only selects
        return refuse(ValueError(f"bippo {name} needs Ray, which is not installed; install without --no-deps"))
    if os.getcwd() not in sys.path:
        sys.path.append(os.getcwd())  # as `python -m` does: there custom methods, models and data sets may lie
    if argv is None:
        collect_rarely()
        sys.argv[1:] = rest
    return import_module(COMMANDS[name][0]).main(None if argv is None else rest)
