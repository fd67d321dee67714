"""From rows to numbers: rounds to target, accuracy, joules. Pure functions, no files, no models."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

from experiments.results.rows import WINDOW

LATE_ROUND = 100
_ROUNDING = 1e-9


@dataclass(frozen=True)
class Spread:
    """Mean and population standard deviation (ddof 0, as the paper's) over `n` seeds."""

    mean: float
    std: float
    n: int

    @classmethod
    def of(cls, values: Sequence[float]) -> Spread | None:
        """The spread of `values`, or None if there are none."""
        return cls(float(np.mean(values)), float(np.std(values)), len(values)) if len(values) else None


def rolling_mean(values: ArrayLike, window: int = WINDOW) -> NDArray[np.float64]:
    """Mean of the last `window` values, `[len(values)]`; NaN until the window is full."""
    series = np.asarray(values, dtype=np.float64)
    result = np.full(len(series), np.nan)
    if len(series) >= window:
        result[window - 1 :] = np.lib.stride_tricks.sliding_window_view(series, window).mean(axis=1)
    return result


def rounds_to_target(accuracy: ArrayLike, target: float, window: int = WINDOW) -> int | None:
    """First round (from 1) at which the mean of the last `window` rounds reaches `target`, or None."""
    reached = np.flatnonzero(rolling_mean(accuracy, window) >= target - _ROUNDING)
    return int(reached[0]) + 1 if len(reached) else None


@dataclass(frozen=True)
class TrialSummary:
    """Numbers of one trial. `late_accuracy` is the mean over rounds > 100, None for shorter trials."""

    trial: str
    method: str
    setting: str
    seed: int
    rounds: int
    mean_accuracy: float
    late_accuracy: float | None
    rounds_to_target: int | None
    energy_per_round_j: float
    energy_total_j: float
    budget_share: float


def summarize_trial(rows: pd.DataFrame, target: float) -> TrialSummary:
    """Numbers of one trial from its rows, ordered by round."""
    late = rows.loc[rows["round"] > LATE_ROUND, "mean_accuracy"]
    first = rows.iloc[0]
    return TrialSummary(
        trial=str(first["trial"]),
        method=str(first["method"]),
        setting=str(first["setting"]),
        seed=int(first["seed"]),
        rounds=len(rows),
        mean_accuracy=float(rows["mean_accuracy"].mean()),
        late_accuracy=float(late.mean()) if len(late) else None,
        rounds_to_target=rounds_to_target(rows["mean_accuracy"], target),
        energy_per_round_j=float(rows["energy_j"].mean()),
        energy_total_j=float(rows["energy_j"].sum()),
        budget_share=_budget_share(rows),
    )


def _budget_share(rows: pd.DataFrame) -> float:
    """Mean over rounds of energy / budget; a budget of 0 counts as unused, an infinite one as 0."""
    energy, budget = rows["energy_j"].to_numpy(float), rows["budget_j"].to_numpy(float)
    return float(np.divide(energy, budget, out=np.zeros_like(energy), where=budget > 0).mean())


@dataclass(frozen=True)
class MethodSummary:
    """Numbers of one method in one setting over its seeds.

    `rounds_to_target` is taken over the `rounds_to_target.n` seeds that reached the target; None if none did.
    `late_accuracy` is over the seeds with rounds > 100. `accuracy_std_over_rounds` pools all rounds of all seeds.
    """

    method: str
    setting: str
    trials: tuple[TrialSummary, ...]
    mean_accuracy: Spread
    accuracy_std_over_rounds: float
    late_accuracy: Spread | None
    rounds_to_target: Spread | None
    energy_per_round_j: Spread
    energy_total_j: Spread
    budget_share: Spread

    @property
    def label(self) -> str:
        """Method and, in a search, the setting."""
        return f"{self.method} {self.setting}".strip()

    @property
    def num_seeds(self) -> int:
        return len(self.trials)


def summarize(rows: pd.DataFrame, target: float) -> list[MethodSummary]:
    """One summary per method and setting, in the order in which the rows name them.

    A search may draw the same setting twice; the two trials are the same run, so the longer one stands for both.
    """
    return [_summarize_method(group, target) for _, group in rows.groupby(["method", "setting"], sort=False)]


def one_trial_per_seed(rows: pd.DataFrame) -> pd.DataFrame:
    """The rows of one method and setting, of the longest trial of each seed only."""
    length = rows.groupby(["seed", "trial"], sort=False).size().reset_index(name="length")
    longest = length.sort_values("length", ascending=False, kind="stable").drop_duplicates("seed")["trial"]
    return rows[rows["trial"].isin(longest)]


def _summarize_method(rows: pd.DataFrame, target: float) -> MethodSummary:
    rows = one_trial_per_seed(rows)
    trials = tuple(summarize_trial(group, target) for _, group in rows.groupby("trial", sort=False))

    def over_seeds(name: str) -> Spread | None:
        return Spread.of([value for trial in trials if (value := getattr(trial, name)) is not None])

    def over_all_seeds(name: str) -> Spread:
        spread = over_seeds(name)
        assert spread is not None and spread.n == len(trials)
        return spread

    return MethodSummary(
        method=trials[0].method,
        setting=trials[0].setting,
        trials=trials,
        mean_accuracy=over_all_seeds("mean_accuracy"),
        accuracy_std_over_rounds=float(rows["mean_accuracy"].std(ddof=0)),
        late_accuracy=over_seeds("late_accuracy"),
        rounds_to_target=over_seeds("rounds_to_target"),
        energy_per_round_j=over_all_seeds("energy_per_round_j"),
        energy_total_j=over_all_seeds("energy_total_j"),
        budget_share=over_all_seeds("budget_share"),
    )
