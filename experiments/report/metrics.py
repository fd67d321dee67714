"""From rows to numbers: rounds to target, accuracy, joules. Pure functions, no files, no models."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from experiments.methods import is_reference, told_of
from experiments.report.statistics import Estimate
from experiments.results.rows import WINDOW

LATE_ROUND = 100
_ROUNDING = 1e-9


def rounds_to_target(accuracy: Sequence[float] | pd.Series, target: float, window: int = WINDOW) -> int | None:
    """Returns the first round (from 1) at which the mean of the last ``window`` rounds reaches ``target``, or None."""
    reached = np.flatnonzero(pd.Series(accuracy).rolling(window).mean() >= target - _ROUNDING)
    return int(reached[0]) + 1 if len(reached) else None


def summarize_trials(rows: pd.DataFrame, target: float) -> pd.DataFrame:
    """Returns the numbers of each trial, a row each, from its rows ordered by round.

    ``late_accuracy`` is over rounds > 100, NaN for shorter trials, and so is ``rounds_to_target`` where the target was
    not reached. ``budget_share`` is the mean over rounds of energy / budget; a budget of 0 counts as unused.
    """
    rows = rows.assign(
        late_accuracy=rows["mean_accuracy"].where(rows["round"] > LATE_ROUND),
        budget_share=(rows["energy_j"] / rows["budget_j"]).where(rows["budget_j"] > 0, 0.0),
    )
    trials = rows.groupby(["trial", "seed"], sort=False).agg(
        rounds=("round", "size"),
        mean_accuracy=("mean_accuracy", "mean"),
        late_accuracy=("late_accuracy", "mean"),
        rounds_to_target=("mean_accuracy", lambda accuracy: rounds_to_target(accuracy, target) or np.nan),
        energy_per_round_j=("energy_j", "mean"),
        energy_total_j=("energy_j", "sum"),
        budget_share=("budget_share", "mean"),
    )
    return trials.reset_index()


@dataclass(frozen=True)
class MethodSummary:
    """Numbers of one method in one setting."""

    method: str
    setting: str
    trials: pd.DataFrame  #: What ``summarize_trials`` gives, a row per seed.
    accuracy_std: float  #: Population standard deviation of accuracy over all rounds of all seeds together.

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

    @property
    def mean_accuracy(self) -> Estimate:
        """Mean accuracy over all rounds."""
        return self.over_seeds("mean_accuracy")

    @property
    def rounds_to_target(self) -> Estimate:
        """Rounds to target of the seeds that reached it."""
        return self.over_seeds("rounds_to_target")

    def over_seeds(self, name: str) -> Estimate:
        """Returns a column of ``trials``, over the seeds that have a number there."""
        return Estimate.of(self.trials[name].dropna())


def method_label(method: str, setting: str) -> str:
    """Returns the method and, in a search, the setting with its numbers rounded; a reference in parentheses."""
    label = f"{marked(method, method)} {short_setting(setting)}".strip()
    return f"({label})" if is_reference(method) else label


def marked(name: str, method: str) -> str:
    """Returns the name, with a mark if the method is told what no real client would give away."""
    return f"{name} (told)" if told_of(method) else name


def short_setting(setting: str) -> str:
    """Returns a setting with at most four digits of each number, to be read rather than run again."""
    return re.sub(r"(?<![\w.])\d+\.\d+(e-?\d+)?", lambda number: f"{float(number[0]):.4g}", setting)


def summarize(rows: pd.DataFrame, target: float) -> list[MethodSummary]:
    """Returns one summary per method and setting, in the order in which the rows name them.

    A search may draw the same setting twice; the two trials are the same run, so the longer one stands for both.
    """
    summaries = []
    for (method, setting), group in rows.groupby(["method", "setting"], sort=False):
        group = one_trial_per_seed(group)
        accuracy_std = float(group["mean_accuracy"].std(ddof=0))
        summaries.append(MethodSummary(method, setting, summarize_trials(group, target), accuracy_std))
    return summaries


def one_trial_per_seed(rows: pd.DataFrame) -> pd.DataFrame:
    """Returns the rows of one method and setting, of the longest trial of each seed only."""
    length = rows.groupby(["seed", "trial"], sort=False).size().reset_index(name="length")
    longest = length.sort_values("length", ascending=False, kind="stable").drop_duplicates("seed")["trial"]
    return rows[rows["trial"].isin(longest)]
