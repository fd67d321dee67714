"""``python -m experiments.report RESULTS_DIR [...]``: tables, report.md and figures of a study, from its rows."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path

from experiments.cli import Parser, exit_code, named_path
from experiments.report.macs_page import write_macs_page
from experiments.report.report import build_report
from experiments.report.results import collect
from experiments.report.sections import write_report
from experiments.report.shortfalls import find_shortfalls
from experiments.results.collection import CLIENTS_FILE, ROUNDS_FILE, is_collection
from experiments.results.files import check_writable
from experiments.results.naming import printable


def parser() -> Parser:
    """Returns the parser of the command."""
    result = Parser(
        prog="python -m experiments.report", description="Tables, report.md and figures of a study, from its rows."
    )
    add = partial(result.add_argument, type=named_path, metavar="DIR")
    several = "folder that a study wrote; several of the same scenario, federation, target and rounds make one report"
    add("results_dirs", nargs="*", metavar="RESULTS_DIR", help=several)
    add("--output", help="where to write; default: RESULTS_DIR, if there is only one")
    add("--against", nargs="+", default=[], help="study to compare with: without churn, or with policies from scratch")
    add("--collect", metavar="OUT", help="write the rows of all these studies to two Parquet files in OUT, no report")
    add("--macs", help="write a page on the MACs of the policies to DIR; needs no results")
    return result


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the command; returns the exit code (0, 2 bad input, 130 interrupted)."""
    return exit_code(partial(_main, argv))


def _main(argv: Sequence[str] | None) -> int:
    arguments = parser().parse_args(argv)
    if arguments.macs:
        print(f"page  {printable(write_macs_page(arguments.macs))}")
    if arguments.collect:
        _collect(arguments.results_dirs, arguments.collect)
    elif arguments.results_dirs or not arguments.macs:
        _report(arguments.results_dirs, arguments.against, arguments.output)
    return 0


def _collect(folders: Sequence[Path], output: Path) -> None:
    _check_named(folders)
    check_writable(output, "--collect")
    studies = collect(folders, output)
    for line in (*(f"study   {source.folder}" for source in studies.sources), *find_shortfalls(studies)):
        print(printable(line))
    print(f"written {printable(output / ROUNDS_FILE)} and {CLIENTS_FILE}")


def _check_named(folders: Sequence[Path]) -> None:
    if not folders:
        raise ValueError("name a results folder, such as results/digits-DATE-TIME")


def _report(folders: Sequence[Path], against: Sequence[Path], output: Path | None) -> None:
    _check_named(folders)
    if output is None and (len(folders) > 1 or is_collection(folders[0]) or is_collection(folders[0].parent)):
        raise ValueError("several studies, and collected ones, need --output DIR to write the report to")
    report = build_report(folders, against)
    path, figure = write_report(report, output or folders[0])
    print(f"{report.text()}\n\nreport  {printable(path)}\nfigures {printable(figure.parent)}/*.png (and .svg)")
