"""From rows to numbers: rounds to target, accuracy, joules. Pure functions, no files, no models."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from experiments.methods import is_reference
from experiments.report.statistics import Estimate
from experiments.results.rows import WINDOW

LATE_ROUND = 100
_ROUNDING = 1e-9


def rounds_to_target(accuracy: Sequence[float] | pd.Series, target: float, window: int = WINDOW) -> int | None:
    """Returns the first round (from 1) at which the mean of the last ``window`` rounds reaches ``target``, or None."""
    reached = np.flatnonzero(pd.Series(accuracy).rolling(window).mean() >= target - _ROUNDING)
    return int(reached[0]) + 1 if len(reached) else None


@dataclass(frozen=True)
class TrialSummary:
    """Numbers of one trial.

    Attributes:
        late_accuracy: Mean accuracy over rounds > 100; None for shorter trials.
        rounds_to_target: None if the target was not reached.
        budget_share: Mean over rounds of energy / budget.
    """

    trial: str
    seed: int
    rounds: int
    mean_accuracy: float
    late_accuracy: float | None
    rounds_to_target: int | None
    energy_per_round_j: float
    energy_total_j: float
    budget_share: float


def summarize_trial(rows: pd.DataFrame, target: float) -> TrialSummary:
    """Returns the numbers of one trial from its rows, ordered by round."""
    late = rows.loc[rows["round"] > LATE_ROUND, "mean_accuracy"]
    return TrialSummary(
        trial=str(rows["trial"].iloc[0]),
        seed=int(rows["seed"].iloc[0]),
        rounds=len(rows),
        mean_accuracy=float(rows["mean_accuracy"].mean()),
        late_accuracy=float(late.mean()) if len(late) else None,
        rounds_to_target=rounds_to_target(rows["mean_accuracy"], target),
        energy_per_round_j=float(rows["energy_j"].mean()),
        energy_total_j=float(rows["energy_j"].sum()),
        budget_share=_budget_share(rows),
    )


def _budget_share(rows: pd.DataFrame) -> float:
    """A budget of 0 counts as unused, an infinite one as 0."""
    energy, budget = rows["energy_j"].to_numpy(float), rows["budget_j"].to_numpy(float)
    return float(np.divide(energy, budget, out=np.zeros_like(energy), where=budget > 0).mean())


@dataclass(frozen=True)
class MethodSummary:
    """Numbers of one method in one setting; an ``Estimate`` is over the seeds that have the number of that name.

    Attributes:
        trials: One per seed.
        accuracy_std: Population standard deviation of accuracy over all rounds of all seeds together.
    """

    method: str
    setting: str
    trials: tuple[TrialSummary, ...]
    accuracy_std: float
    mean_accuracy: Estimate
    late_accuracy: Estimate
    rounds_to_target: Estimate
    energy_per_round_j: Estimate
    energy_total_j: Estimate
    budget_share: Estimate

    @property
    def label(self) -> str:
        """As it is written in a table."""
        return method_label(self.method, self.setting)

    @property
    def is_reference(self) -> bool:
        """Whether this is a bound to compare methods with."""
        return is_reference(self.method)

    @property
    def num_seeds(self) -> int:
        """Number of trials, one per seed."""
        return len(self.trials)


def method_label(method: str, setting: str) -> str:
    """Returns the method and, in a search, the setting; a reference in parentheses."""
    label = f"{method} {setting}".strip()
    return f"({label})" if is_reference(method) else label


def summarize(rows: pd.DataFrame, target: float) -> list[MethodSummary]:
    """Returns one summary per method and setting, in the order in which the rows name them.

    A search may draw the same setting twice; the two trials are the same run, so the longer one stands for both.
    """
    return [
        _summarize_method(str(method), str(setting), one_trial_per_seed(group), target)
        for (method, setting), group in rows.groupby(["method", "setting"], sort=False)
    ]


def one_trial_per_seed(rows: pd.DataFrame) -> pd.DataFrame:
    """Returns the rows of one method and setting, of the longest trial of each seed only."""
    length = rows.groupby(["seed", "trial"], sort=False).size().reset_index(name="length")
    longest = length.sort_values("length", ascending=False, kind="stable").drop_duplicates("seed")["trial"]
    return rows[rows["trial"].isin(longest)]


def _summarize_method(method: str, setting: str, rows: pd.DataFrame, target: float) -> MethodSummary:
    trials = tuple(summarize_trial(trial, target) for _, trial in rows.groupby("trial", sort=False))

    def over_seeds(name: str) -> Estimate:
        return Estimate.of(getattr(trial, name) for trial in trials)

    return MethodSummary(
        method=method,
        setting=setting,
        trials=trials,
        accuracy_std=float(rows["mean_accuracy"].std(ddof=0)),
        mean_accuracy=over_seeds("mean_accuracy"),
        late_accuracy=over_seeds("late_accuracy"),
        rounds_to_target=over_seeds("rounds_to_target"),
        energy_per_round_j=over_seeds("energy_per_round_j"),
        energy_total_j=over_seeds("energy_total_j"),
        budget_share=over_seeds("budget_share"),
    )
