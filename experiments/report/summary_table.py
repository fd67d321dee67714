"""The words and digits of the summary table: one record per method."""

from __future__ import annotations

import math
from collections.abc import Sequence

from experiments.report.metrics import LATE_ROUND, MethodSummary, Spread
from experiments.report.tables import Record


def records(summaries: Sequence[MethodSummary], target: float) -> list[Record]:
    """One record per method (in a search, per setting); accuracies are shares of 1, energies joules."""
    return [{**_record(summary, target), **_optional(summary, summaries)} for summary in summaries]


def _optional(summary: MethodSummary, summaries: Sequence[MethodSummary]) -> Record:
    """Columns that only some studies have: accuracy late in long trials, and rounds where they differ."""
    columns = {}
    if any(other.late_accuracy for other in summaries):
        late = summary.late_accuracy
        columns[f"accuracy > round {LATE_ROUND}"] = _plus_minus(late, 3) if late else "–"
    if len({trial.rounds for other in summaries for trial in other.trials}) > 1:
        columns["rounds"] = _range([trial.rounds for trial in summary.trials])
    return columns


def _record(summary: MethodSummary, target: float) -> Record:
    return {
        "method": summary.label,
        "seeds": str(summary.num_seeds),
        "mean accuracy": _plus_minus(summary.mean_accuracy, 3),
        f"rounds to {100 * target:.0f} %": _reached(summary),
        "J/round": _joules(summary.energy_per_round_j),
        "of budget": _percent(summary.budget_share),
        "J in all": _joules(summary.energy_total_j),
    }


def _range(values: Sequence[int]) -> str:
    low, high = min(values), max(values)
    return str(low) if low == high else f"{low}–{high}"


def _plus_minus(spread: Spread, decimals: int) -> str:
    mean = f"{spread.mean:.{decimals}f}"
    return mean if spread.n == 1 else f"{mean} ± {spread.std:.{decimals}f}"


def _joules(spread: Spread) -> str:
    """Four significant digits of the mean, and as many decimals of the spread."""
    digits_before_point = math.floor(math.log10(spread.mean)) + 1 if spread.mean > 0 else 1
    return _plus_minus(spread, max(0, 4 - digits_before_point))


def _percent(spread: Spread) -> str:
    return f"{100 * spread.mean:.1f} %"


def _reached(summary: MethodSummary) -> str:
    spread, asked = summary.rounds_to_target, summary.num_seeds
    if spread is None:
        return f"reached 0 of {asked}"
    rounds = _plus_minus(spread, 1)
    return rounds if spread.n == asked else f"{rounds} (reached {spread.n} of {asked})"
