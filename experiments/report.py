"""`python -m experiments.report RESULTS_DIR`: the table, report.md and the figure of a study, from its rows.

Reads rows and run.json, never a model. A study may still be running or have been killed: what is there is reported, and
every trial that is missing or shorter than asked for is named.
"""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from experiments.metrics import LATE_ROUND, MethodSummary, Spread, summarize
from experiments.naming import look_up
from experiments.plots import accuracy_figure, save_figure
from experiments.provenance import RunInfo, read_run_info
from experiments.rows import read_rows
from experiments.scenarios import SCENARIOS, PaperResult
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
        with_late = any(summary.late_accuracy is not None for summary in self.summaries)
        return [_record(summary, self.target, with_late) for summary in self.summaries]

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
        summaries = sorted(summaries, key=rank, reverse=True)
    return Report(_heading(rows, scenario), target, summaries, shortfalls(summaries, info, rows), rows)


def rank(summary: MethodSummary) -> tuple[int, float]:
    """Order of the settings of a search: means over fewer rounds do not compare, so the longest trials come first."""
    return min(trial.rounds for trial in summary.trials), summary.mean_accuracy.mean


def _heading(rows: pd.DataFrame, scenario: str) -> str:
    clients, rounds = int(rows["num_clients"].max()), int(rows["round"].max())
    seeds = ", ".join(str(seed) for seed in sorted(rows["seed"].unique()))
    return f"{scenario}: {clients} clients, {rounds} rounds, seeds {seeds}"


def _record(summary: MethodSummary, target: float, with_late: bool) -> Record:
    record = {
        "method": summary.label,
        "seeds": str(summary.num_seeds),
        "mean accuracy": _plus_minus(summary.mean_accuracy, 3),
        f"rounds to {100 * target:.0f} %": _rounds_to_target(summary),
        "J/round": _joules(summary.energy_per_round_j),
        "of budget": _percent(summary.budget_share),
        "J in all": _joules(summary.energy_total_j),
    }
    if with_late:
        late = summary.late_accuracy
        record[f"accuracy > round {LATE_ROUND}"] = _plus_minus(late, 3) if late else "–"
    return record


def _plus_minus(spread: Spread, decimals: int) -> str:
    mean = f"{spread.mean:.{decimals}f}"
    return mean if spread.n == 1 else f"{mean} ± {spread.std:.{decimals}f}"


def _joules(spread: Spread) -> str:
    """Four significant digits of the mean, and as many decimals of the spread."""
    digits_before_point = math.floor(math.log10(spread.mean)) + 1 if spread.mean > 0 else 1
    return _plus_minus(spread, max(0, 4 - digits_before_point))


def _percent(spread: Spread) -> str:
    return f"{100 * spread.mean:.1f} %"


def _rounds_to_target(summary: MethodSummary) -> str:
    spread, asked = summary.rounds_to_target, summary.num_seeds
    if spread is None:
        return f"reached 0 of {asked}"
    rounds = _plus_minus(spread, 1)
    return rounds if spread.n == asked else f"{rounds} (reached {spread.n} of {asked})"


def shortfalls(summaries: Sequence[MethodSummary], info: RunInfo | None, rows: pd.DataFrame) -> list[str]:
    """One line for every method that ran fewer seeds or rounds than asked for.

    Without run.json, what was asked for is the union of all seeds and the longest trial.
    """
    methods = list(info.methods) if info else sorted(rows["method"].unique())
    seeds = list(info.seeds) if info else sorted(int(seed) for seed in rows["seed"].unique())
    rounds = info.rounds if info else int(rows["round"].max())
    if info and info.search:
        return _search_shortfalls(summaries, rounds, len(seeds) * info.num_samples)
    done = {(t.method, t.seed): t.rounds for summary in summaries for t in summary.trials}
    missing = [(method, seed) for method in methods for seed in seeds if done.get((method, seed), 0) < rounds]
    return [_shortfall(method, seed, done.get((method, seed)), rounds) for method, seed in missing]


def _shortfall(method: str, seed: int, done: int | None, rounds: int) -> str:
    found = "has no rows" if done is None else f"has {done} of {rounds} rounds"
    return f"{method} with seed {seed} {found}"


def _search_shortfalls(summaries: Sequence[MethodSummary], rounds: int, asked: int) -> list[str]:
    lines = []
    for method in dict.fromkeys(summary.method for summary in summaries):
        lengths = [trial.rounds for s in summaries if s.method == method for trial in s.trials]
        short = sum(length < rounds for length in lengths)
        if short:
            lines.append(
                f"{method}: {short} of {len(lengths)} trials ended before round {rounds} (ASHA stops what falls behind)"
            )
        if len(lengths) < asked:
            lines.append(f"{method}: {len(lengths)} of {asked} trials have rows")
    return lines


def paper_records(summaries: Sequence[MethodSummary], scenario: str) -> list[Record]:
    """What the paper prints beside what was measured; empty where the paper has no such experiment."""
    paper = SCENARIOS[scenario].paper if scenario in SCENARIOS else {}
    return [_paper_record(summary, paper[summary.method]) for summary in summaries if summary.method in paper]


def _paper_record(summary: MethodSummary, paper: PaperResult) -> Record:
    printed = (
        "–" if paper.rounds_to_target is None else f"{paper.rounds_to_target:.1f} ± {paper.rounds_to_target_std:.1f}"
    )
    return {
        "method": summary.label,
        "rounds to target": _rounds_to_target(summary),
        "paper: rounds to target": printed,
        "mean accuracy (std over rounds and seeds)": f"{summary.mean_accuracy.mean:.3f} ({summary.accuracy_std_over_rounds:.3f})",
        "paper: mean accuracy (std)": f"{paper.mean_accuracy:.3f} ({paper.accuracy_std:.3f})",
    }


def write_report(report: Report, results_dir: Path) -> tuple[Path, Path]:
    """Write report.md and the figure (PNG and SVG); returns the paths of the report and the PNG."""
    scenario = str(report.rows["scenario"].iloc[0])
    shown = report.summaries[:MAX_CURVES]
    order = {(summary.method, summary.setting): index for index, summary in enumerate(shown)}
    keys = pd.Series(list(zip(report.rows["method"], report.rows["setting"], strict=True)), index=report.rows.index)
    drawn = report.rows[keys.isin(list(order))].assign(_order=keys.map(order)).sort_values(["_order", "seed", "round"])
    png, _ = save_figure(accuracy_figure(drawn, report.target, report.heading), results_dir)
    path = results_dir / REPORT_FILE
    path.write_text(
        _markdown(report, read_run_info(results_dir), scenario, png.name, len(report.summaries) - len(shown))
    )
    return path, png


def _markdown(report: Report, info: RunInfo | None, scenario: str, figure: str, undrawn: int) -> str:
    parts = [f"# {report.heading}", markdown_table(report.records), f"![Accuracy over rounds]({figure})"]
    if undrawn:
        parts.append(f"The figure shows the best {MAX_CURVES} settings; {undrawn} more are in the table.")
    if report.shortfalls:
        parts.append("## Less than asked for\n\n" + "\n".join(f"- {line}" for line in report.shortfalls))
    paper = paper_records(report.summaries, scenario)
    if paper:
        parts.append(f"## Beside the paper (section {SCENARIOS[scenario].paper_section})\n\n{markdown_table(paper)}")
    parts.append(_DEFINITIONS)
    if info:
        parts.append(_run_section(info))
    return "\n\n".join(parts) + "\n"


_DEFINITIONS = """## What the columns mean

- mean accuracy: over clients (unweighted) and all rounds; then mean ± population standard deviation over seeds.
- rounds to target: the first round at which the mean accuracy of the last 10 rounds reaches the target. Seeds that never do are
  counted ("reached k of n") and left out of the mean.
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
