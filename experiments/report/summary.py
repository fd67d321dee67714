"""What the rows of one or more results folders show: the heading, a summary per method, and what is missing.

Reads rows, run.json and manifests of checkpoints, never a model. A study may still be running or have been killed: what
is there is reported, and every trial that is missing or shorter than requested is named.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from envs.checks import printable
from experiments.methods import METHODS, privileged_information
from experiments.report.comparison_sections import check_against
from experiments.report.merged import Results, read_results
from experiments.report.method_tables import summary_records
from experiments.report.metrics import MethodSummary, summarize
from experiments.report.shortfalls import find_shortfalls
from experiments.report.tables import Record, text_table
from experiments.results.naming import pluralize


@dataclass(frozen=True)
class Report:
    """What results folders show."""

    results: Results
    heading: str  #: Scenario, size, seeds and churn.
    summaries: list[MethodSummary]  #: In the order of the table.
    records: list[Record]  #: The summary table.
    notes: list[str]  #: What marks in the table mean: privileged information, or a bound that is no method.
    shortfalls: list[str]  #: What was requested and is missing, a line each.
    against: Results | None = None  #: The study to compare with.

    def text(self) -> str:
        """Returns the heading, the table and what is missing, for a terminal."""
        notes = [printable(f"note: {line}") for line in (*self.notes, *self.shortfalls)]
        return "\n".join([printable(self.heading), "", text_table(self.records), *([""] if notes else []), *notes])


def build_report(
    results_dirs: Path | Sequence[Path], against: Sequence[Path] = (), name: str = "", target: float | None = None
) -> Report:
    """Reads one or more results folders of the same scenario, and those of a study to compare with.

    ``name`` and ``target`` are as in ``read_results``.

    Raises:
        ValueError: If a folder holds no rows, the folders may not be merged, or ``against`` does not compare.
    """
    folders = [results_dirs] if isinstance(results_dirs, Path) else results_dirs
    results = read_results(folders, name, target)
    other = read_results(against, target=target) if against else None
    if other is not None:
        check_against(results, other)
    summaries = summarize(results.rows, results.target)
    if results.is_search:
        summaries.sort(key=_rank, reverse=True)
    else:
        summaries.sort(key=lambda summary: results.methods.index(summary.method))
    records = summary_records(summaries, results.target)
    return Report(results, _heading(results), summaries, records, _notes(summaries), find_shortfalls(results), other)


def _rank(summary: MethodSummary) -> tuple[int, float]:
    """Returns the key that orders a search: the longest trials first, as means over fewer rounds do not compare."""
    return summary.trials["rounds"].min(), summary.mean_accuracy.mean


def _heading(results: Results) -> str:
    rows = results.rows
    seeds = sorted(rows["seed"].unique())
    size = [(int(rows["num_clients"].max()), "client"), (int(rows["round"].max()), "round")]
    parts = [*(pluralize(*of) for of in size), f"seed{'s' * (len(seeds) > 1)} {', '.join(map(str, seeds))}"]
    return f"{results.title}: {', '.join(parts)}{f'; {results.churn.text}' if results.churn else ''}"


def _notes(summaries: Sequence[MethodSummary]) -> list[str]:
    privileged = [
        f"{summary.label}: it knows {known}, which no real client gives away"
        for summary in summaries
        if (known := privileged_information(summary.method))
    ]
    bounds = [
        f"{summary.label}: {METHODS[summary.method].description}; it shows how much there is to win"
        for summary in summaries
        if summary.is_reference
    ]
    return privileged + bounds
