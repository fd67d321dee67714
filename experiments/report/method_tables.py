"""Tables of methods: the summary, intervals over seeds, and differences between methods that are paired by seed."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import pandas as pd

from experiments.report.comparisons import compare_rows, on_common_rounds
from experiments.report.metrics import LATE_ROUND, MethodSummary, summarize_trials
from experiments.report.numbers import MISSING, energy_unit, number, plus_minus, with_interval
from experiments.report.statistics import Estimate, Paired
from experiments.report.tables import Record, records_of

_MOST_STAGES = 6


def summary_records(summaries: Sequence[MethodSummary], target: float) -> list[Record]:
    """Returns one record per method (in a search, per setting); accuracies are shares of 1.

    Accuracy late in long trials, and rounds where they differ, are columns only of studies that have them.
    """
    per_round = energy_unit(summary.over_seeds("energy_per_round_j").mean for summary in summaries)
    total = energy_unit(summary.over_seeds("energy_total_j").mean for summary in summaries)
    columns = {
        "method": [summary.label for summary in summaries],
        "seeds": [str(summary.num_seeds) for summary in summaries],
        "mean accuracy": [plus_minus(summary.mean_accuracy, 3) for summary in summaries],
        _rounds_to(target): [_reached(summary) for summary in summaries],
        f"{per_round.name}/round": [per_round.text(summary.over_seeds("energy_per_round_j")) for summary in summaries],
        "% of budget": [number(100 * summary.over_seeds("budget_share").mean, 1) for summary in summaries],
        f"total {total.name}": [total.text(summary.over_seeds("energy_total_j")) for summary in summaries],
    }
    late = [summary.over_seeds("late_accuracy") for summary in summaries]
    if any(mean.n for mean in late):
        columns[f"accuracy > round {LATE_ROUND}"] = [plus_minus(mean, 3) if mean.n else MISSING for mean in late]
    rounds = [sorted(summary.trials["rounds"].unique()) for summary in summaries]
    if len(set().union(*rounds)) > 1:
        columns["rounds"] = ["–".join(map(str, dict.fromkeys([ran[0], ran[-1]]))) for ran in rounds]
    return records_of(columns)


def stage_records(rows: pd.DataFrame, summaries: Sequence[MethodSummary]) -> list[Record]:
    """Returns one record per method: its accuracy in each of at most six blocks of rounds."""
    last = int(rows["round"].max())
    length = 10 * -(-last // (10 * _MOST_STAGES))
    stages = {first: f"{first}–{min(first + length - 1, last)}" for first in range(1, last + 1, length)}
    stage = ((rows["round"] - 1) // length * length + 1).map(stages)
    means = rows.groupby(["method", "setting", stage, "trial"])["mean_accuracy"].mean()
    records: list[Record] = []
    for summary in summaries:
        own = means[summary.method, summary.setting]
        of_trials = own[own.index.get_level_values("trial").isin(summary.trials["trial"])].groupby(level=0)
        found = {name: plus_minus(Estimate.of(values), 3) for name, values in of_trials}
        records.append({"method": summary.label, **{name: found.get(name, MISSING) for name in stages.values()}})
    return records


def interval_records(rows: pd.DataFrame, summaries: Sequence[MethodSummary], target: float) -> list[Record]:
    """Returns mean, std and interval of mean accuracy and of rounds to target, one record per method.

    Where there is a reference, also the mean accuracy as % of the reference's on the same seeds and rounds.
    """
    columns = {
        "method": [summary.label for summary in summaries],
        "n": [str(summary.num_seeds) for summary in summaries],
        "mean accuracy": [with_interval(summary.mean_accuracy, 3) for summary in summaries],
        _rounds_to(target): [_reached_interval(summary) for summary in summaries],
    }
    for reference in (summary for summary in summaries if summary.is_reference):
        columns[f"% of {reference.method}"] = [_share_of(reference, summary, rows) for summary in summaries]
    return records_of(columns)


def _share_of(reference: MethodSummary, summary: MethodSummary, rows: pd.DataFrame) -> str:
    compared = compare_rows(*(rows[rows["method"] == one.method] for one in (summary, reference)))
    if compared is None or summary is reference:
        return MISSING
    return with_interval(Estimate.of(100 * ratio for ratio in compared.accuracy.ratio.values), 1)


def paired_records(rows: pd.DataFrame, summaries: Sequence[MethodSummary], target: float) -> list[Record]:
    """Returns every method minus every later one, on the seeds and rounds that both have; none in a search."""
    if any(summary.setting for summary in summaries):
        return []
    pairs = itertools.combinations(summaries, 2)
    return [record for first, second in pairs if (record := _paired_record(rows, first, second, target))]


def _paired_record(rows: pd.DataFrame, first: MethodSummary, second: MethodSummary, target: float) -> Record | None:
    ours, others = on_common_rounds(*(rows[rows["method"] == summary.method] for summary in (first, second)))
    compared = compare_rows(ours, others)
    if compared is None:
        return None
    accuracy, reached = compared.accuracy, Paired.of(*(_seeds_that_reached(each, target) for each in (ours, others)))
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
    """Rounds to target of the seeds that reached it in these rows."""
    return summarize_trials(rows, target).set_index("seed")["rounds_to_target"].dropna().to_dict()


def _rounds_to(target: float) -> str:
    return f"rounds to {100 * target:.0f} %"


def _reached(summary: MethodSummary) -> str:
    reached, asked = summary.rounds_to_target, summary.num_seeds
    if not reached.n:
        return f"reached 0 of {asked}"
    rounds = plus_minus(reached, 1)
    return rounds if reached.n == asked else f"{rounds} (reached {reached.n} of {asked})"


def _reached_interval(summary: MethodSummary) -> str:
    reached = with_interval(summary.rounds_to_target, 1)
    missed = summary.num_seeds - summary.rounds_to_target.n
    return f"{reached} (missed by {missed})" if missed else reached
