"""From rows to numbers: the methods of a study, their rounds to target, accuracy and joules. Reads no files."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence

import numpy as np
import pandas as pd

from experiments.methods import is_reference, privileged_information
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


class MethodSummary:
    """One method in one setting, with its rows of one trial per seed and their numbers.

    A search may draw the same setting twice; the two trials are the same run, so the longer one stands for both.

    Attributes:
        trials: The numbers of ``summarize_trials``, a row per seed.
        label: The method and its setting as tables write them.
        is_reference: Whether this is a bound to compare methods with.
        rounds_to_target: Of the seeds that reached it.
    """

    def __init__(self, method: str, setting: str, rows: pd.DataFrame, target: float) -> None:
        self.method, self.setting, self.rows = method, setting, one_trial_per_seed(rows)
        self.trials = summarize_trials(self.rows, target)
        self.num_seeds = len(self.trials)
        self.label, self.is_reference = method_label(method, setting), is_reference(method)
        self.mean_accuracy = self.over_seeds("mean_accuracy")
        self.rounds_to_target = self.over_seeds("rounds_to_target")

    def over_seeds(self, name: str) -> Estimate:
        """Returns a column of ``trials``, over the seeds that have a number there."""
        return Estimate.of(self.trials[name].dropna())


def summarize(rows: pd.DataFrame, target: float = math.nan) -> list[MethodSummary]:
    """Returns one summary per method and setting, in the order in which the rows name them."""
    groups = rows.groupby(["method", "setting"], sort=False)
    return [MethodSummary(method, setting, group, target) for (method, setting), group in groups]


def one_trial_per_seed(rows: pd.DataFrame) -> pd.DataFrame:
    """Returns the rows of one method and setting, of the longest trial of each seed only."""
    length = rows.groupby(["seed", "trial"], sort=False).size().reset_index(name="length")
    longest = length.sort_values("length", ascending=False, kind="stable").drop_duplicates("seed")["trial"]
    return rows[rows["trial"].isin(longest)]


def method_label(method: str, setting: str) -> str:
    """Returns the method and, in a search, the setting with its numbers rounded; a reference in parentheses."""
    label = f"{marked(method, method)} {short_setting(setting)}".strip()
    return f"({label})" if is_reference(method) else label


def marked(name: str, method: str) -> str:
    """Returns the name, with a mark if the method has privileged information."""
    return f"{name} (privileged)" if privileged_information(method) else name


def short_setting(setting: str) -> str:
    """Returns a setting with at most four digits of each number, to be read rather than run again."""
    return re.sub(r"(?<![\w.])\d+\.\d+(e-?\d+)?", lambda number: f"{float(number[0]):.4g}", setting)
