"""Two studies side by side, method by method on the same seeds: churn against none, pretrained against from scratch.

Pure functions of rows.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import pandas as pd

from experiments.report.churn_moments import find_churn
from experiments.report.metrics import one_trial_per_seed
from experiments.report.statistics import Difference, Estimate, paired_difference

JUMP_START_ROUNDS = 20


@dataclass(frozen=True)
class Comparison:
    """Mean accuracy of one method over rounds `first` to `last` in two studies, over the seeds that both have.

    `difference` is this study minus the other.
    """

    method: str
    first: int
    last: int
    ours: Estimate
    others: Estimate
    difference: Difference


def churn_comparison(rows: pd.DataFrame, without: pd.DataFrame) -> tuple[list[Comparison], list[Comparison]]:
    """Rounds before the first change, and from the first round it shows in on, each against the run without churn.

    Before it the two should not differ but by who else holds data; after it they show what churn costs. A method's
    last round is the last one that all its compared trials have.

    Raises:
        ValueError: If `rows` have no churn, or `without` has.
    """
    churn = find_churn(rows)
    if churn is None:
        raise ValueError("nobody joins or leaves in these rows, so there is no churn to compare")
    other = find_churn(without)
    if other is not None:
        raise ValueError(f"the run to compare with has churn too ({other.words}); name one without")
    before = _compare(rows, without, 1, churn.first_round - 1)
    return before, _compare(rows, without, churn.first_round, None)


def jump_start(pretrained: pd.DataFrame, scratch: pd.DataFrame) -> tuple[list[Comparison], list[Comparison]]:
    """The first 20 rounds, and all rounds, of pretrained policies against policies from scratch."""
    return _compare(pretrained, scratch, 1, JUMP_START_ROUNDS), _compare(pretrained, scratch, 1, None)


def compare_rows(
    method: str, ours: pd.DataFrame, others: pd.DataFrame, first: int = 1, last: int | None = None
) -> Comparison | None:
    """Mean accuracy over rounds `first` to `last` of the rows of one method (or setting) and those of another.

    Over the seeds that both have and no further than all of those trials go; None if nothing is left.
    """
    ours, others = on_common_rounds(ours, others)
    if ours.empty:
        return None
    common = int(ours["round"].max())
    last = common if last is None else min(last, common)
    if last < first:
        return None
    mine, theirs = _seed_means(ours, first, last), _seed_means(others, first, last)
    own, other = Estimate.of(list(mine.values())), Estimate.of(list(theirs.values()))
    difference = paired_difference(mine, theirs)
    assert own is not None and other is not None and difference is not None
    return Comparison(method, first, last, own, other, difference)


def on_common_seeds(ours: pd.DataFrame, others: pd.DataFrame) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Both without the rows of seeds that only one has."""
    return ours[ours["seed"].isin(others["seed"])], others[others["seed"].isin(ours["seed"])]


def on_common_rounds(ours: pd.DataFrame, others: pd.DataFrame) -> tuple[pd.DataFrame, pd.DataFrame]:
    """What of one method (or setting) is compared: one trial per common seed, no further than all of them go."""
    ours, others = on_common_seeds(one_trial_per_seed(ours), one_trial_per_seed(others))
    if ours.empty:
        return ours, others
    last = min(int(rows.groupby("seed")["round"].max().min()) for rows in (ours, others))
    return ours[ours["round"] <= last], others[others["round"] <= last]


def _compare(ours: pd.DataFrame, others: pd.DataFrame, first: int, last: int | None) -> list[Comparison]:
    """One entry per method that both have with a common seed and rounds in the range."""
    found = [
        compare_rows(str(name), rows, others[others["method"] == name], first, last)
        for name, rows in ours.groupby("method", sort=False)
    ]
    return [comparison for comparison in found if comparison is not None]


def _seed_means(rows: pd.DataFrame, first: int, last: int) -> Mapping[int, float]:
    """Seed -> mean accuracy over rounds `first` to `last`."""
    means = rows[rows["round"].between(first, last)].groupby("seed")["mean_accuracy"].mean()
    return {int(seed): float(value) for seed, value in means.items()}
