"""The words and digits of the statistics: intervals over seeds, and BIPPO minus every other method."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd

from experiments.report.comparisons import Comparison, compare_rows
from experiments.report.metrics import MethodSummary
from experiments.report.statistics import Difference, Estimate, paired_difference
from experiments.report.tables import Record

BASELINE = "bippo"


def interval_records(summaries: Sequence[MethodSummary], target: float) -> list[Record]:
    """Mean, std and interval of mean accuracy and of rounds to target, one record per method."""
    return [_interval_record(summary, target) for summary in summaries]


def _interval_record(summary: MethodSummary, target: float) -> Record:
    accuracy = estimate_text(Estimate.of([trial.mean_accuracy for trial in summary.trials]), 3)
    reached = estimate_text(Estimate.of(list(rounds_reached(summary).values())), 1)
    missed = summary.num_seeds - len(rounds_reached(summary))
    return {
        "method": summary.label,
        "n": str(summary.num_seeds),
        "mean accuracy": accuracy,
        f"rounds to {100 * target:.0f} %": f"{reached} (missed by {missed})" if missed else reached,
    }


def paired_records(rows: pd.DataFrame, summaries: Sequence[MethodSummary], target: float) -> list[Record]:
    """BIPPO minus every other method, on the seeds and rounds that both have; empty without BIPPO or in a search."""
    found = {summary.method: summary for summary in summaries}
    if BASELINE not in found or len(found) != len(summaries):
        return []
    own = rows[rows["method"] == BASELINE]
    compared = [compare_rows(method, own, rows[rows["method"] == method]) for method in found if method != BASELINE]
    return [_paired_record(found[BASELINE], found[c.method], c, target) for c in compared if c is not None]


def _paired_record(own: MethodSummary, other: MethodSummary, compared: Comparison, target: float) -> Record:
    accuracy, reached = compared.difference, paired_difference(rounds_reached(own), rounds_reached(other))
    return {
        "BIPPO −": other.method,
        "seeds": ", ".join(map(str, accuracy.seeds)),
        "rounds": f"{compared.first}–{compared.last}",
        "mean accuracy": difference_text(accuracy, 3),
        "BIPPO higher in": f"{accuracy.positive} of {len(accuracy.seeds)}",
        f"rounds to {100 * target:.0f} %": difference_text(reached, 1) if reached else "–",
        "seeds that both reached it": str(len(reached.seeds)) if reached else "0",
    }


def rounds_reached(summary: MethodSummary) -> dict[int, float]:
    """Seed -> rounds to target, of the seeds that reached it."""
    return {t.seed: float(t.rounds_to_target) for t in summary.trials if t.rounds_to_target is not None}


def estimate_text(estimate: Estimate | None, decimals: int, signed: bool = False) -> str:
    """`0.779 ± 0.014 [0.761, 0.792]`; without interval for one seed; a dash for none."""
    if estimate is None:
        return "–"
    mean = _number(estimate.mean, decimals, signed)
    if estimate.interval is None:
        return f"{mean} (n = 1, no interval)"
    low, high = (_number(bound, decimals, signed) for bound in estimate.interval)
    return f"{mean} ± {estimate.std:.{decimals}f} [{low}, {high}]"


def difference_text(difference: Difference, decimals: int) -> str:
    """The same with signs."""
    return estimate_text(difference.estimate, decimals, signed=True)


def _number(value: float, decimals: int, signed: bool) -> str:
    rounded = round(value, decimals) + 0.0  # no "-0.000"
    return f"{rounded:{'+' if signed and rounded else ''}.{decimals}f}".replace("-", "−")
