"""`python -m experiments.report RESULTS_DIR [...]`: tables, report.md and figures of a study, from its rows.

Reads rows and run.json, never a model. A study may still be running or have been killed: what is there is reported, and
every trial that is missing or shorter than asked for is named. Several folders of the same scenario make one report.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from experiments.report.churn_moments import find_churn
from experiments.report.comparison_sections import check_against
from experiments.report.metrics import MethodSummary, summarize
from experiments.report.results import Results, read_results
from experiments.report.sections import sections
from experiments.report.shortfalls import merged_shortfalls
from experiments.report.summary_table import records
from experiments.report.tables import Record, text_table
from experiments.results.files import check_writable
from experiments.results.naming import pluralize

REPORT_FILE = "report.md"


@dataclass(frozen=True)
class Report:
    """What results folders say. `summaries` are in the order of the table; `shortfalls` name what is missing."""

    heading: str
    target: float
    summaries: list[MethodSummary]
    shortfalls: list[str]
    rows: pd.DataFrame
    results: Results
    against: Results | None = None

    @property
    def records(self) -> list[Record]:
        """The table."""
        return records(self.summaries, self.target)

    def text(self) -> str:
        """The heading, the table and what is missing, for a terminal."""
        notes = [f"note: {shortfall}" for shortfall in self.shortfalls]
        return "\n".join([self.heading, "", text_table(self.records), *(["", *notes] if notes else [])])


def build_report(results_dirs: Path | Sequence[Path], against: Sequence[Path] = ()) -> Report:
    """Read one or more results folders of the same scenario, and those of a study to compare with.

    Raises:
        ValueError: If a folder holds no rows, the folders may not be merged, or `against` does not compare.
    """
    folders = [results_dirs] if isinstance(results_dirs, Path) else list(results_dirs)
    results = read_results(folders)
    other = read_results(against) if against else None
    if other is not None:
        check_against(results, other)
    rows = results.rows
    summaries = summarize(rows, results.target)
    if results.is_search:
        summaries.sort(key=rank, reverse=True)
    else:
        order = {method: place for place, method in enumerate(results.methods)}
        summaries.sort(key=lambda summary: order[summary.method])
    return Report(
        heading=_heading(rows, results.scenario),
        target=results.target,
        summaries=summaries,
        shortfalls=merged_shortfalls(results, summaries),
        rows=rows,
        results=results,
        against=other,
    )


def rank(summary: MethodSummary) -> tuple[int, float]:
    """Order of the settings of a search: means over fewer rounds do not compare, so the longest trials come first."""
    return min(trial.rounds for trial in summary.trials), summary.mean_accuracy.mean


def _heading(rows: pd.DataFrame, scenario: str) -> str:
    clients, rounds = int(rows["num_clients"].max()), int(rows["round"].max())
    seeds = [str(seed) for seed in sorted(rows["seed"].unique())]
    size = f"{pluralize(clients, 'client')}, {pluralize(rounds, 'round')}"
    heading = f"{scenario}: {size}, seed{'s' * (len(seeds) > 1)} {', '.join(seeds)}"
    churn = find_churn(rows)
    return f"{heading}; {churn.words}" if churn else heading


def write_report(report: Report, output: Path) -> tuple[Path, Path]:
    """Write report.md and the figures (PNG and SVG); returns the paths of the report and of the accuracy PNG."""
    check_writable(output, "--output")
    output.mkdir(parents=True, exist_ok=True)
    parts = sections(report, output)
    path = output / REPORT_FILE
    path.write_text("\n\n".join(parts) + "\n", encoding="utf-8")
    return path, output / "accuracy.png"


def parser() -> argparse.ArgumentParser:
    result = argparse.ArgumentParser(
        prog="python -m experiments.report", description="Tables, report.md and figures of a study, from its rows."
    )
    result.add_argument(
        "results_dirs",
        nargs="*",
        type=Path,
        metavar="RESULTS_DIR",
        help="folder that a study wrote; several of the same scenario, federation, target and rounds make one report",
    )
    result.add_argument(
        "--output", type=Path, metavar="DIR", help="where to write; default: RESULTS_DIR, if there is only one"
    )
    result.add_argument(
        "--against",
        nargs="+",
        type=Path,
        default=[],
        metavar="DIR",
        help="study to compare with: without churn, or with policies from scratch",
    )
    result.add_argument(
        "--macs", type=Path, metavar="DIR", help="write a page on the MACs of the policies to DIR; needs no results"
    )
    return result


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command; returns the exit code (0, or 2 for bad input)."""
    arguments = parser().parse_args(argv)
    try:
        if arguments.macs:
            from experiments.report.macs_page import write_macs_page  # builds networks, so it loads torch and RLlib

            print(f"page  {write_macs_page(arguments.macs)}")
        if arguments.results_dirs or not arguments.macs:
            _report(arguments)
    except (ValueError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    return 0


def _report(arguments: argparse.Namespace) -> None:
    folders = arguments.results_dirs
    if not folders:
        raise ValueError("name a results folder, such as results/digits-DATE-TIME")
    if len(folders) > 1 and arguments.output is None:
        raise ValueError(f"{len(folders)} results folders need --output DIR to write the report to")
    report = build_report(folders, arguments.against)
    path, figure = write_report(report, arguments.output or folders[0])
    print(f"{report.text()}\n\nreport  {path}\nfigures {figure.parent}/*.png (and .svg)")
