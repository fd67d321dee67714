"""``python -m experiments.benchmark rl``: what reinforcement learning adds to a round, from 20 to 10,000 clients."""

from __future__ import annotations

import argparse
import itertools
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from experiments.benchmark.rl.page import ratios_table, stream_line, write_report
from experiments.benchmark.rl.rows import (
    BIPPO,
    CENTRAL,
    PRIOR,
    ROWS_FILE,
    STOCK,
    Case,
    Measurement,
    read_rows,
    write_rows,
)
from experiments.benchmark.rl.summary import measurements
from experiments.benchmark.rl.turns import run_in_turns
from experiments.cli import EXIT_FAILED, EXIT_INTERRUPTED, at_least, distinct, named_path, new_results_dir
from experiments.report.tables import text_table

_PARTICIPANTS = 20
_DESCRIPTION = """\
What reinforcement learning adds to a round: BIPPO, without and with its prior, the central network and stock RLlib on
an environment that costs nothing. Each has a process of its own; those with as many clients take turns, and BIPPO with
the fewest clients takes turns with all of them, so that ratios hold on a machine that does something else as well. Rows
are kept as they come.
"""


def add_parser(commands: Any) -> None:
    """Adds the sub-command."""
    what = "what reinforcement learning adds to a round"
    parser = commands.add_parser("rl", help=what, description=_DESCRIPTION)
    parser.set_defaults(run=run)
    clients, limit = [20, 48, 100, 300, 1000], at_least(0)
    # Rounds: from two pairs on, the fewest that can show a change.
    add = parser.add_argument
    add("--clients", nargs="+", type=at_least(1), default=clients, metavar="N", help="default: up to 1000")
    add("--participants", type=at_least(1), metavar="K", help=f"trained per round; default: {_PARTICIPANTS}")
    add("--participation", type=float, metavar="SHARE", help="the same as a share of the clients")
    add("--rounds", type=at_least(10), default=50, metavar="N", help="measured rounds per case; default: 50")
    add("--central-max", type=limit, default=1000, metavar="N", help="most for the central network; default: 1000")
    add("--stock-max", type=limit, default=100, metavar="N", help="most clients for stock RLlib; default: 100")
    add("--stock-rounds", type=at_least(4), default=10, metavar="N", help="its measured rounds; default: 10")
    add("--results-dir", type=named_path, metavar="DIR", help="default: results/rl-DATE-TIME")
    add("--show", type=named_path, metavar="FILE", help=f"report of an {ROWS_FILE} again; measures nothing")


def run(arguments: argparse.Namespace) -> int:
    """Runs the command; returns the exit code (0, 1 failed cases, 130 interrupted).

    Raises:
        ValueError: For arguments that make no case, or a file that holds no rows.
    """
    if arguments.show:
        shown = read_rows(arguments.show)
        _report(shown.rows, shown.command, arguments.show.parent)
        return 0
    cases = cases_of(arguments)
    folder = new_results_dir(arguments.results_dir, "rl", ROWS_FILE)
    folder.mkdir(parents=True, exist_ok=True)
    return _measure(cases, folder, arguments.command)


def cases_of(arguments: argparse.Namespace) -> list[Case]:
    """The cases the arguments ask for, in the order they run. ValueError for what cannot be run."""
    implementations = (
        (BIPPO, sys.maxsize, arguments.rounds),
        (PRIOR, sys.maxsize, arguments.rounds),
        (CENTRAL, arguments.central_max, arguments.rounds),
        (STOCK, arguments.stock_max, arguments.stock_rounds),
    )
    return [
        Case(implementation, rule, clients, _participants(rule, clients), rounds)
        for rule in _rules(arguments.participants, arguments.participation)
        for clients in sorted(distinct("--clients", arguments.clients))
        for implementation, most_clients, rounds in implementations
        if clients <= most_clients
    ]


def _rules(participants: int | None, participation: float | None) -> list[str]:
    """``["20", "10 %"]``: how many are trained, as text."""
    if participation is None:
        return [str(participants or _PARTICIPANTS)]
    if not 0.0 < participation <= 1.0:
        raise ValueError(f"--participation is {participation}; it must be a share above 0 and at most 1, such as 0.1")
    return [*([str(participants)] if participants else []), f"{100 * participation:g} %"]


def _participants(rule: str, clients: int) -> int:
    if rule.endswith("%"):
        return max(1, round(float(rule.removesuffix(" %")) / 100 * clients))
    if int(rule) > clients:
        raise ValueError(f"--participants is {rule}, more than the {clients} of --clients; lower it or leave that out")
    return int(rule)


def _measure(cases: Sequence[Case], folder: Path, command: str) -> int:
    rows: list[Measurement] = []
    code = 0
    print(stream_line(), flush=True)
    try:
        for _, group in itertools.groupby(cases, key=lambda case: (case.rule, case.num_clients)):
            found, failures = _group(list(group), cases)
            for failure in failures:
                print(f"error: {failure}", file=sys.stderr)
                code = EXIT_FAILED
            rows += found
            if rows:
                write_rows(folder / ROWS_FILE, rows, command)
            for row in found:
                print(stream_line(row), flush=True)
    except KeyboardInterrupt:
        print(f"\ninterrupted; {len(rows)} of {len(cases)} cases are kept in {folder}", file=sys.stderr)
        code = EXIT_INTERRUPTED
    if rows:
        _report(rows, command, folder)
    return code


def _group(group: Sequence[Case], cases: Sequence[Case]) -> tuple[list[Measurement], list[str]]:
    """Rows of what takes turns, and failures. BIPPO with the fewest clients takes turns with every group."""
    fewest = next(case for case in cases if case.implementation == BIPPO and case.rule == group[0].rule)
    records, failures = run_in_turns(list(dict.fromkeys([*group, fewest])))
    return [row for row in measurements(records, fewest) if row.case in group], failures


def _report(rows: Sequence[Measurement], command: str, folder: Path) -> None:
    paths = write_report(rows, command, folder)
    if table := ratios_table(rows, text_table):
        print("", table, sep="\n")
    print("", *(f"written  {path}" for path in paths), sep="\n")
