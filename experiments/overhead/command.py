"""`python -m experiments.overhead`: what reinforcement learning adds to a round, from 20 to 10,000 clients.

The environment costs nothing. Every case runs in a process of its own; rows are kept as they come.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from experiments.overhead.report import record, stream_line, targets_table, write_report
from experiments.overhead.rows import (
    BIPPO,
    CENTRAL,
    ROWS_FILE,
    STOCK,
    Case,
    Measurement,
    from_record,
    read_rows,
    write_rows,
)
from experiments.results.files import check_writable
from experiments.results.run_info import command_line

EXIT_FAILED_CASES = 1
EXIT_BAD_INPUT = 2
EXIT_INTERRUPTED = 130
MIN_ROUNDS = 10
MIN_STOCK_ROUNDS = 4
"""Two pairs: the fewest that can show a change."""


def parser() -> argparse.ArgumentParser:
    result = argparse.ArgumentParser(prog="python -m experiments.overhead", description=__doc__, allow_abbrev=False)
    result.error = _raise  # type: ignore[assignment]
    result.add_argument(
        "--clients", nargs="+", type=int, default=[20, 48, 100, 300, 1000], metavar="N", help="default: up to 1000"
    )
    result.add_argument("--participants", type=int, metavar="K", help="clients trained per round; default: 20")
    result.add_argument("--participation", type=float, metavar="SHARE", help="the same as a share of the clients")
    result.add_argument("--rounds", type=int, default=50, metavar="N", help="measured rounds per case; default: 50")
    result.add_argument("--central-max", type=int, default=1000, metavar="N", help="most for the central network")
    result.add_argument("--stock-max", type=int, default=100, metavar="N", help="most clients for stock RLlib")
    result.add_argument("--stock-rounds", type=int, default=10, metavar="N", help="its measured rounds; default: 10")
    result.add_argument("--results-dir", type=Path, metavar="DIR", help="default: results/overhead-DATE-TIME")
    result.add_argument("--show", type=Path, metavar="FILE", help=f"report of a {ROWS_FILE} again; measures nothing")
    return result


def _raise(message: str) -> None:
    raise ValueError(f"{message}; see --help")


def cases_of(arguments: argparse.Namespace) -> list[Case]:
    """The cases the arguments ask for, in the order they run. ValueError for what cannot be run."""
    _at_least("--rounds", arguments.rounds, MIN_ROUNDS)
    _at_least("--stock-rounds", arguments.stock_rounds, MIN_STOCK_ROUNDS)
    for flag in ("--stock-max", "--central-max"):
        _at_least(flag, getattr(arguments, flag[2:].replace("-", "_")), 0)
    repeated = [n for index, n in enumerate(arguments.clients) if n in arguments.clients[:index]]
    if repeated:
        raise ValueError(f"--clients has {repeated[0]} twice; name each number once")
    cases: list[Case] = []
    for rule in _rules(arguments.participants, arguments.participation):
        for clients in sorted(arguments.clients):
            _at_least("--clients", clients, 1)
            trained = _participants(rule, clients)
            cases.append(Case(BIPPO, rule, clients, trained, arguments.rounds))
            if clients <= arguments.central_max:
                cases.append(Case(CENTRAL, rule, clients, trained, arguments.rounds))
            if clients <= arguments.stock_max:
                cases.append(Case(STOCK, rule, clients, trained, arguments.stock_rounds))
    return cases


def _rules(participants: int | None, participation: float | None) -> list[str]:
    """`["20", "10 %"]`: how many are trained, as text."""
    if participation is not None and not 0.0 < participation <= 1.0:
        raise ValueError(f"--participation is {participation}; it must be a share above 0 and at most 1, such as 0.1")
    if participants is None and participation is None:
        participants = 20
    rules = [] if participants is None else [str(_at_least("--participants", participants, 1))]
    return rules if participation is None else [*rules, f"{100 * participation:g} %"]


def _participants(rule: str, clients: int) -> int:
    if rule.endswith("%"):
        return max(1, round(float(rule.removesuffix(" %")) / 100 * clients))
    if int(rule) > clients:
        raise ValueError(f"--participants is {rule}, more than the {clients} of --clients; lower it or leave that out")
    return int(rule)


def _at_least(flag: str, value: int, least: int) -> int:
    if value < least:
        raise ValueError(f"{flag} is {value}; it must be at least {least}")
    return value


def _results_dir(asked: Path | None) -> Path:
    """A folder that can be written and holds no other run; it is made."""
    stamp = datetime.datetime.now().strftime("%Y%m%d-%H%M%S")
    path = (asked or Path("results") / f"overhead-{stamp}").expanduser()
    if (path / ROWS_FILE).exists():
        raise ValueError(f"results folder {path} already holds a run; name another one, or remove it first")
    check_writable(path)
    path.mkdir(parents=True, exist_ok=True)
    return path


def run_case(case: Case) -> Measurement:
    """Measure in a fresh process. RuntimeError with the last line it wrote if it fails."""
    process = subprocess.Popen(
        [sys.executable, "-m", "experiments.overhead.measure", json.dumps(asdict(case))],
        env={**os.environ, "OMP_NUM_THREADS": "1", "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0"},
        cwd=Path(__file__).resolve().parents[2],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,  # Ctrl-C reaches it once, from us, so that it can stop its Ray
    )
    try:
        output, errors = process.communicate()
    except BaseException:
        _stop(process)
        raise
    if process.returncode != 0:
        lines = errors.strip().splitlines() or [f"exit code {process.returncode}"]
        raise RuntimeError(lines[-1])
    return from_record(json.loads(output.strip().splitlines()[-1]))


def _stop(process: subprocess.Popen) -> None:
    process.send_signal(signal.SIGINT)
    try:
        process.communicate(timeout=15)
    except subprocess.TimeoutExpired:
        process.kill()


def _run(cases: Sequence[Case], folder: Path, command: str) -> int:
    rows: list[Measurement] = []
    code = 0
    print(stream_line(), flush=True)
    try:
        for case in cases:
            try:
                rows.append(run_case(case))
            except RuntimeError as error:
                print(f"error: {case.implementation} with {case.num_clients} clients: {error}", file=sys.stderr)
                code = EXIT_FAILED_CASES
                continue
            write_rows(folder / ROWS_FILE, rows, command)
            print(stream_line(record(rows[-1])), flush=True)
    except KeyboardInterrupt:
        print(f"\ninterrupted; {len(rows)} of {len(cases)} cases are kept in {folder}", file=sys.stderr)
        code = EXIT_INTERRUPTED
    if rows:
        _report(rows, command, folder)
    return code


def _report(rows: Sequence[Measurement], command: str, folder: Path) -> None:
    paths = write_report(rows, command, folder)
    verdict = targets_table(rows)
    print("", *([verdict, ""] if verdict else []), *(f"written  {path}" for path in paths), sep="\n")


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command; returns the exit code (0, 1 failed cases, 2 bad input, 130 interrupted)."""
    argv = sys.argv[1:] if argv is None else argv
    try:
        arguments = parser().parse_args(argv)
        if arguments.show:
            rows, command = read_rows(arguments.show)
            _report(rows, command, arguments.show.parent)
            return 0
        cases = cases_of(arguments)
        folder = _results_dir(arguments.results_dir)
    except (ValueError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return EXIT_BAD_INPUT
    return _run(cases, folder, command_line("experiments.overhead", argv))
