"""``bippo report RESULTS_DIR [...]``: tables, report.md and figures of a study, from its rows."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from envs.checks import printable
from experiments.argument_types import named_path, number
from experiments.cli import Parser, exit_code
from experiments.report.curves import paper_figure
from experiments.report.macs import networks_table
from experiments.report.merged import Results, collect, read_results
from experiments.report.plots import save_figure
from experiments.report.report_md import write_report
from experiments.report.shortfalls import find_shortfalls
from experiments.report.styles import as_drawn, method_name
from experiments.report.summary import build_report
from experiments.report.tables import markdown_table
from experiments.results.collection import CLIENTS_FILE, POLICY_COLUMNS, ROUNDS_FILE, is_collection
from experiments.results.files import check_writable

_REPORT = "report"
#: What is read by each flag that takes the report's place, and by the report.
_READ = {
    "macs": (),
    "collect": ("results_dirs", "without"),
    "figure": ("results_dirs", "target", "methods", "size", "band"),
    _REPORT: ("results_dirs", "output", "against", "name", "target"),
}
#: Of a figure for a paper, by which its format is chosen.
_ENDINGS = (".pdf", ".svg", ".png")
_FLAGS = {"results_dirs": "RESULTS_DIR"}


def parser() -> Parser:
    """Returns the parser of the command."""
    result = Parser(prog="bippo report", description="Tables, report.md and figures of a study, from its rows.")
    add = partial(result.add_argument, type=named_path, metavar="DIR")
    several = "folder that a study wrote; several of the same scenario, federation, target and rounds make one report"
    add("results_dirs", nargs="*", metavar="RESULTS_DIR", help=several)
    add("--output", help="where to write; default: RESULTS_DIR, if there is only one")
    add("--against", nargs="+", default=[], help="study to compare with: without churn, or with policies from scratch")
    result.add_argument("--name", default="", help="name of the study in headings; default: its scenario")
    target = "target accuracy; default: that of the study"
    result.add_argument("--target", type=_between(0.001, 1, "a share of 1"), metavar="SHARE", help=target)
    add("--collect", metavar="OUT", help="write the rows of all these studies to two Parquet files in OUT, no report")
    smaller = "with --collect: leave these columns empty, which are most of the files' size"
    result.add_argument("--without", nargs="+", choices=POLICY_COLUMNS, default=[], metavar="COLUMN", help=smaller)
    result.add_argument("--macs", action="store_true", help="print MACs of the policies; needs no results")
    paper = result.add_argument_group("a figure for a paper, in place of the report")
    figure = f"accuracy over rounds, as {', '.join(_ENDINGS[:-1])} or {_ENDINGS[-1]}"
    paper.add_argument("--figure", type=_figure_file, metavar="FILE", help=figure)
    chosen = "methods to draw, in this order, and their names; default: all"
    paper.add_argument("--methods", nargs="+", default=[], type=_named_method, metavar="METHOD[=NAME]", help=chosen)
    inches, size = _between(0.5, 50, "inches"), "width and height; default: 3.5 2.6"
    paper.add_argument("--size", nargs=2, type=inches, default=(3.5, 2.6), metavar="INCHES", help=size)
    bands = "around the mean over seeds: standard deviation (default), 95 %% bootstrap interval, or nothing"
    paper.add_argument("--band", choices=("std", "interval", "none"), default="std", help=bands)
    return result


def _between(least: float, most: float, unit: str) -> Callable[[str], float]:
    """Returns the argparse type of numbers from ``least`` to ``most``."""

    def checked(text: str) -> float:
        value = number(text)
        if not least <= value <= most:
            raise argparse.ArgumentTypeError(f"it is {text}; expected {unit}, from {least:g} to {most:g}")
        return value

    return checked


def _figure_file(text: str) -> Path:
    path = named_path(text)
    if path.suffix.lower() not in _ENDINGS:
        raise argparse.ArgumentTypeError(
            f"{text!r} ends in {path.suffix or 'nothing that names a format'}; expected {', '.join(_ENDINGS[:-1])} or "
            f"{_ENDINGS[-1]}, such as {path.stem}{_ENDINGS[0]}"
        )
    return path


def _named_method(text: str) -> tuple[str, str]:
    method, _, name = text.partition("=")
    if not method:
        raise argparse.ArgumentTypeError(f"{text!r} names no method; expected METHOD or METHOD=NAME")
    return method, as_drawn(name or method_name(method))


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the command; returns the exit code (0, 2 bad input, 130 interrupted)."""
    return exit_code(partial(_main, argv))


def _main(argv: Sequence[str] | None) -> int:
    arguments = parser().parse_args(argv)
    _check_read(arguments)
    if arguments.macs:
        print(markdown_table(networks_table()))
        return 0
    if not arguments.results_dirs:
        raise ValueError("name a results folder, such as results/digits-DATE-TIME")
    if arguments.collect:
        _collect(arguments.results_dirs, arguments.collect, arguments.without)
    elif arguments.figure:
        _figure(arguments)
    else:
        _report(arguments)
    return 0


def _check_read(arguments: argparse.Namespace) -> None:
    """Raises a ValueError for an argument that is given and not read with the others."""
    defaults = vars(parser().parse_args([]))
    given = [name for name, value in vars(arguments).items() if value != defaults[name]]
    mode = next((name for name in _READ if name in given), _REPORT)
    for name in given:
        if name == mode or name in _READ[mode]:
            continue
        readers = [f"--{reader}" for reader, names in _READ.items() if name in names and reader != _REPORT]
        here = f"with --{mode}" if mode != _REPORT else f"without {' or '.join(readers)}"
        raise ValueError(f"{_FLAGS.get(name, f'--{name}')} changes nothing {here}; leave it out")


def _collect(folders: Sequence[Path], output: Path, without: Sequence[str]) -> None:
    check_writable(output, "--collect")
    for study in collect(folders, output, without).studies:
        lacks = (f"        {line}" for line in find_shortfalls(Results([study])))
        print(*map(printable, (f"study   {study.folder}", *lacks)), sep="\n")
    print(f"written {printable(output / ROUNDS_FILE)} and {CLIENTS_FILE}")


def _figure(arguments: argparse.Namespace) -> None:
    path, methods = arguments.figure, dict(arguments.methods) or None
    check_writable(path.parent, "--figure")
    results = read_results(arguments.results_dirs, target=arguments.target)
    figure = paper_figure(results.rows, arguments.size, methods, arguments.band, results.target)
    path.parent.mkdir(parents=True, exist_ok=True)
    save_figure(figure, path)
    print(f"figure  {printable(path)}")


def _report(arguments: argparse.Namespace) -> None:
    folders, output = arguments.results_dirs, arguments.output
    if output is None and (len(folders) > 1 or is_collection(folders[0]) or is_collection(folders[0].parent)):
        raise ValueError("several studies, and collected ones, need --output DIR to write the report to")
    report = build_report(folders, arguments.against, arguments.name, arguments.target)
    path, figure = write_report(report, output or folders[0])
    print(f"{report.text()}\n\nreport  {printable(path)}\nfigures {printable(figure.parent)}/*.png (and .svg)")
