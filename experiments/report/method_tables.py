"""Tables of methods: the summary, intervals over seeds, and differences between methods that are paired by seed."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import pandas as pd

from experiments.report.comparisons import compare_rows
from experiments.report.metrics import LATE_ROUND, MethodSummary, summarize_trials
from experiments.report.statistics import Estimate, Paired
from experiments.report.tables import MISSING, Record, energy_unit, number, plus_minus, with_interval

_MOST_STAGES = 6


def summary_records(summaries: Sequence[MethodSummary], target: float) -> list[Record]:
    """Returns one record per method (in a search, per setting); accuracies are shares of 1.

    Accuracy late in long trials, and rounds where they differ, are columns only of studies that have them.
    """
    trials = pd.concat([summary.trials for summary in summaries])
    per_round = energy_unit(summary.over_seeds("energy_per_round_j").mean for summary in summaries)
    total = energy_unit(summary.over_seeds("energy_total_j").mean for summary in summaries)
    return [
        {
            "method": summary.label,
            "seeds": str(summary.num_seeds),
            "mean accuracy": plus_minus(summary.mean_accuracy, 3),
            _rounds_to(target): _reached(summary),
            f"{per_round.name}/round": per_round.text(summary.over_seeds("energy_per_round_j")),
            "% of budget": number(100 * summary.over_seeds("budget_share").mean, 1),
            f"total {total.name}": total.text(summary.over_seeds("energy_total_j")),
            **_late_accuracy(summary, trials),
            **_rounds(summary, trials),
        }
        for summary in summaries
    ]


def _late_accuracy(summary: MethodSummary, trials: pd.DataFrame) -> Record:
    is_long = trials["late_accuracy"].notna().any()
    return {f"accuracy > round {LATE_ROUND}": plus_minus(summary.over_seeds("late_accuracy"), 3)} if is_long else {}


def _rounds(summary: MethodSummary, trials: pd.DataFrame) -> Record:
    ends = summary.trials["rounds"].agg(["min", "max"]).unique()
    return {"rounds": "–".join(map(str, ends))} if trials["rounds"].nunique() > 1 else {}


def stage_records(summaries: Sequence[MethodSummary]) -> list[Record]:
    """Returns one record per method: its accuracy in each of at most six blocks of rounds."""
    last = max(int(summary.rows["round"].max()) for summary in summaries)
    length = 10 * -(-last // (10 * _MOST_STAGES))
    firsts = range(1, last + 1, length)
    records: list[Record] = []
    for summary in summaries:
        stage = (summary.rows["round"] - 1) // length * length + 1
        by_stage = summary.rows.groupby([stage, "trial"])["mean_accuracy"].mean().groupby("round").agg(Estimate.of)
        cells = by_stage.map(lambda of_trials: plus_minus(of_trials, 3)).reindex(firsts, fill_value=MISSING)
        names = (f"{first}–{min(first + length - 1, last)}" for first in firsts)
        records.append({"method": summary.label, **dict(zip(names, cells, strict=True))})
    return records


def interval_records(summaries: Sequence[MethodSummary], target: float) -> list[Record]:
    """Returns mean, std and interval of mean accuracy and of rounds to target, one record per method.

    Where there is a reference, also the mean accuracy as % of the reference's on the same seeds and rounds.
    """
    references = [summary for summary in summaries if summary.is_reference]
    return [
        {
            "method": summary.label,
            "n": str(summary.num_seeds),
            "mean accuracy": with_interval(summary.mean_accuracy, 3),
            _rounds_to(target): _reached_interval(summary),
            **{f"% of {reference.method}": _share_of(reference, summary) for reference in references},
        }
        for summary in summaries
    ]


def _share_of(reference: MethodSummary, summary: MethodSummary) -> str:
    compared = compare_rows(summary.rows, reference.rows)
    if compared is None or summary is reference:
        return MISSING
    return with_interval(Estimate.of(100 * ratio for ratio in compared.accuracy.ratio.values), 1)


def paired_records(summaries: Sequence[MethodSummary], target: float) -> list[Record]:
    """Returns every method minus every later one, on the seeds and rounds that both have; none in a search."""
    if any(summary.setting for summary in summaries):
        return []
    pairs = itertools.combinations(summaries, 2)
    return [record for first, second in pairs if (record := _paired_record(first, second, target))]


def _paired_record(first: MethodSummary, second: MethodSummary, target: float) -> Record | None:
    compared = compare_rows(first.rows, second.rows)
    if compared is None:
        return None
    accuracy, reached = compared.accuracy, Paired.of(*(_seeds_that_reached(rows, target) for rows in compared.rows))
    return {
        "difference": f"{first.method} − {second.method}",
        "seeds": ", ".join(map(str, accuracy.seeds)),
        "rounds": f"{compared.first}–{compared.last}",
        "mean accuracy": with_interval(accuracy.difference, 3, signed=True),
        "first is higher in": f"{accuracy.wins} of {len(accuracy.seeds)}",
        _rounds_to(target): with_interval(reached.difference, 1, signed=True),
        "seeds that both reached it": str(len(reached.seeds)),
    }


def _seeds_that_reached(rows: pd.DataFrame, target: float) -> dict[int, float]:
    """Returns rounds to target of the seeds that reached it in these rows."""
    return summarize_trials(rows, target).set_index("seed")["rounds_to_target"].dropna().to_dict()


def _rounds_to(target: float) -> str:
    return f"rounds to {100 * target:.0f} %"


def _reached(summary: MethodSummary) -> str:
    reached, seeds = summary.rounds_to_target, summary.num_seeds
    if not reached.n:
        return f"reached 0 of {seeds}"
    return plus_minus(reached, 1) + (f" (reached {reached.n} of {seeds})" if reached.n < seeds else "")


def _reached_interval(summary: MethodSummary) -> str:
    missed = summary.num_seeds - summary.rounds_to_target.n
    return with_interval(summary.rounds_to_target, 1) + (f" (missed by {missed})" if missed else "")
