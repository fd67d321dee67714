"""Two methods, or one method in two studies, side by side on the same seeds and rounds. Pure functions of rows."""

from __future__ import annotations

from dataclasses import dataclass

import pandas as pd

from experiments.report.metrics import one_trial_per_seed
from experiments.report.statistics import Paired


@dataclass(frozen=True)
class Comparison:
    """Mean accuracy over rounds ``first`` to ``last`` in two sets of rows."""

    first: int
    last: int
    accuracy: Paired
    rows: tuple[pd.DataFrame, pd.DataFrame]  #: What is compared of ours and of the others', see ``on_common_rounds``.


def compare_rows(
    ours: pd.DataFrame, others: pd.DataFrame, first: int = 1, last: int | None = None
) -> Comparison | None:
    """Returns our method (or setting) beside the other, over rounds ``first`` to ``last``; None if nothing is common.

    Seeds are the common ones, and rounds go no further than the shortest of their trials.
    """
    ours, others = on_common_rounds(ours, others)
    if ours.empty:
        return None
    common = int(ours["round"].max())
    last = common if last is None else min(last, common)
    if last < first:
        return None
    means = [
        rows[rows["round"].between(first, last)].groupby("seed")["mean_accuracy"].mean().to_dict()
        for rows in (ours, others)
    ]
    return Comparison(first, last, Paired.of(*means), (ours, others))


def on_common_rounds(ours: pd.DataFrame, others: pd.DataFrame) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Returns what is compared of two methods: one trial per common seed, no further than all of them go."""
    ours, others = one_trial_per_seed(ours), one_trial_per_seed(others)
    ours, others = ours[ours["seed"].isin(others["seed"])], others[others["seed"].isin(ours["seed"])]
    last = min(rows.groupby("seed")["round"].max().min() for rows in (ours, others))
    return ours[ours["round"] <= last], others[others["round"] <= last]
