"""Tags under which loggers show a round: RLlib's result in named groups."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from ray.tune.utils import flatten_dict

#: Key of ``RowCallback``'s counts by kind of client.
TRAINED_BY_KIND = "trained_by_kind"
#: The group of all other numbers.
REST = "rllib"

GROUPS: Mapping[str, tuple[str, ...]] = {
    "accuracy": ("mean_accuracy", "mean_accuracy_last_10"),
    "energy": (
        *("energy_j", "budget_j", "budget_share", "energy_total_j", "warmup_energy_j"),
        *("probing_j", "selection_j", "measured_j"),
    ),
    "selection": ("num_clients", "num_trained", "epsilon"),
    "learning": ("reward",),
    "time": ("fl_seconds", "rl_seconds", "time_this_iter_s", "time_since_restore"),
}
_GROUP_OF = {key: group for group, keys in GROUPS.items() for key in keys}

#: Replacements of a key's beginning; the first that matches counts. Beside scores, ``env_runners/selection``
#: repeats the row's numbers.
_PREFIXES: Mapping[str, str] = {
    "env_runners/selection/score_": "selection/score_",
    "env_runners/selection/": "",
    f"{TRAINED_BY_KIND}/": "selection/trained/",
    "learners/__all_modules__/": "learning/",
    "learners/": "learning/",
}
#: Keys without a curve: the step itself, constants, and what Tune's loggers leave out.
_BOOKKEEPING = {
    *("round", "seed", "episode_over", "done", "config", "pid", "timestamp"),
    *("training_iteration", "time_total_s", "iterations_since_restore", "num_training_step_calls_per_iteration"),
}


def grouped(result: Mapping[str, Any]) -> dict[str, float]:
    """Returns the numbers of a result by tag, ``group/name``, without NaN, such as a loss in a round without update."""
    numbers = {}
    curves = {key: value for key, value in result.items() if key not in _BOOKKEEPING}  # without the configuration
    for key, value in flatten_dict(curves, delimiter="/").items():
        is_number = isinstance(value, int | float | np.integer | np.floating)
        if is_number and not math.isnan(value) and (tag := tag_of(key)):
            numbers[tag] = float(value)
    return numbers


def tag_of(key: str) -> str:
    """Returns the tag of a flat key of a result; empty for a key that is not shown."""
    if key.partition("/")[0] in _BOOKKEEPING:
        return ""
    if group := _GROUP_OF.get(key):
        return f"{group}/{key}"
    for prefix, replacement in _PREFIXES.items():
        if key.startswith(prefix):
            return replacement and replacement + key.removeprefix(prefix)
    return f"{REST}/{key}"
