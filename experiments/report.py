"""`python -m experiments.report RESULTS_DIR`: the table, report.md and the figure of a study, from its rows.

Reads rows and run.json, never a model. A study may still be running or have been killed: what is there is reported, and
every trial that is missing or shorter than asked for is named.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from experiments.metrics import MethodSummary, Spread, summarize
from experiments.naming import look_up
from experiments.plots import accuracy_figure, save_figure
from experiments.provenance import RunInfo, read_run_info
from experiments.rows import read_rows
from experiments.scenarios import SCENARIOS
from experiments.shortfalls import shortfalls
from experiments.summary_table import paper_records, records
from experiments.tables import Record, markdown_table, text_table

REPORT_FILE = "report.md"
MAX_CURVES = 7


@dataclass(frozen=True)
class Report:
    """What a results folder says. `summaries` are in the order of the table; `shortfalls` name what is missing."""

    heading: str
    target: float
    summaries: list[MethodSummary]
    shortfalls: list[str]
    rows: pd.DataFrame

    @property
    def records(self) -> list[Record]:
        """The table."""
        return records(self.summaries, self.target)

    def text(self) -> str:
        """The heading, the table and what is missing, for a terminal."""
        notes = [f"note: {shortfall}" for shortfall in self.shortfalls]
        return "\n".join([self.heading, "", text_table(self.records), *(["", *notes] if notes else [])])


def build_report(results_dir: Path) -> Report:
    """Read a results folder. ValueError if it holds no rows."""
    rows, info = read_rows(results_dir), read_run_info(results_dir)
    scenario = str(rows["scenario"].iloc[0])
    target = info.target_accuracy if info else look_up("scenario", scenario, SCENARIOS).target_accuracy
    summaries = summarize(rows, target)
    if info and info.search:
        summaries.sort(key=rank, reverse=True)
    elif info:
        order = {method: place for place, method in enumerate(info.methods)}
        summaries.sort(key=lambda summary: order.get(summary.method, len(order)))
    return Report(_heading(rows, scenario), target, summaries, shortfalls(summaries, info, rows), rows)


def rank(summary: MethodSummary) -> tuple[int, float]:
    """Order of the settings of a search: means over fewer rounds do not compare, so the longest trials come first."""
    return min(trial.rounds for trial in summary.trials), summary.mean_accuracy.mean


def _heading(rows: pd.DataFrame, scenario: str) -> str:
    clients, rounds = int(rows["num_clients"].max()), int(rows["round"].max())
    seeds = [str(seed) for seed in sorted(rows["seed"].unique())]
    return f"{scenario}: {clients} clients, {rounds} rounds, seed{'s' * (len(seeds) > 1)} {', '.join(seeds)}"


def write_report(report: Report, results_dir: Path) -> tuple[Path, Path]:
    """Write report.md and the figure (PNG and SVG); returns the paths of the report and the PNG."""
    scenario = str(report.rows["scenario"].iloc[0])
    shown = report.summaries[:MAX_CURVES]
    order = {(summary.method, summary.setting): index for index, summary in enumerate(shown)}
    keys = pd.Series(list(zip(report.rows["method"], report.rows["setting"], strict=True)), index=report.rows.index)
    drawn = report.rows[keys.isin(list(order))].assign(_order=keys.map(order)).sort_values(["_order", "seed", "round"])
    png, _ = save_figure(accuracy_figure(drawn, report.target, report.heading), results_dir)
    path = results_dir / REPORT_FILE
    undrawn = len(report.summaries) - len(shown)
    path.write_text(_markdown(report, read_run_info(results_dir), scenario, png.name, undrawn))
    return path, png


def _markdown(report: Report, info: RunInfo | None, scenario: str, figure: str, undrawn: int) -> str:
    parts = [f"# {report.heading}", markdown_table(report.records), f"![Accuracy over rounds]({figure})"]
    if undrawn:
        parts.append(f"The figure shows the best {MAX_CURVES} settings; {undrawn} more are in the table.")
    if report.shortfalls:
        parts.append("## Less than asked for\n\n" + "\n".join(f"- {line}" for line in report.shortfalls))
    paper = paper_records(report.summaries, scenario)
    if paper:
        setting = SCENARIOS[scenario]
        rounds = (
            f"The paper's figures are over {setting.rounds} rounds; here {int(report.rows['round'].max())} were run."
        )
        parts.append(f"## Beside the paper (section {setting.paper_section})\n\n{markdown_table(paper)}\n\n{rounds}")
    parts.append(_DEFINITIONS)
    if info:
        parts.append(_run_section(info))
    return "\n\n".join(parts) + "\n"


_DEFINITIONS = """## What the columns mean

- mean accuracy: over clients (unweighted) and all rounds; then mean ± population standard deviation over seeds.
- rounds to target: the first round at which the mean accuracy of the last 10 rounds reaches the target. Seeds that
  never do are counted ("reached k of n") and left out of the mean.
- J/round, of budget, J in all: energy of the clients that trained, in rounds 1 and later; round 0 is not in it."""


def _run_section(info: RunInfo) -> str:
    lines = [f"- command: `{info.command}`"] if info.command else []
    lines += [f"- {name} = {value}" for name, value in {**info.settings, **info.search}.items()]
    if info.warmup_energy_j:
        warmup = Spread.of(list(info.warmup_energy_j.values()))
        assert warmup is not None
        lines.append(f"- round 0 (all clients, one epoch; in none of the figures above): {warmup.mean:.4g} J per trial")
    return "## How it was run\n\n" + "\n".join([*lines, "- commit, versions and machine: `run.json`"])


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m experiments.report", description="Table, report.md and figure of a study, from its rows."
    )
    parser.add_argument("results_dir", type=Path, metavar="RESULTS_DIR", help="folder that a study wrote")
    results_dir = parser.parse_args(argv).results_dir
    try:
        report = build_report(results_dir)
        path, figure = write_report(report, results_dir)
    except (ValueError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    print(f"{report.text()}\n\nreport  {path}\nfigure  {figure} (and .svg)")
    return 0


if __name__ == "__main__":
    sys.exit(main())
