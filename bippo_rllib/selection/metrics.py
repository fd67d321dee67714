"""Metrics of a selection, in RLlib's results under ``env_runners/selection``."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
from ray.rllib.utils.metrics.metrics_logger import MetricsLogger

#: Key of the group.
SELECTION = "selection"
#: Key in a pipeline's ``shared_data``: how the values of a result's steps are reduced, ``mean`` where it is missing.
REDUCE = "reduce_selection_metrics"


def selection_metrics(scores: np.ndarray, costs: np.ndarray, budget: float, selected: np.ndarray) -> dict[str, float]:
    """Computes the metrics of one step's selection.

    Args:
        scores: ``[N]`` what the sampler picks by, ``-inf`` for an agent that is no candidate.
        costs: ``[N]`` cost of each agent, in the environment's unit.
        budget: Budget of the step, in the same unit.
        selected: ``int[K]`` indices of the selected agents.

    Returns:
        Name -> value; NaN where a value is undefined, such as the share of a budget of 0 or infinity.
    """
    spent = float(costs[selected].sum())
    finite = scores[np.isfinite(scores)].astype(np.float64)
    return {
        "num_agents": float(len(costs)),
        "num_selected": float(len(selected)),
        "spent": spent,
        "budget": float(budget),
        "budget_share": spent / budget if 0.0 < budget < math.inf else math.nan,
        **{
            f"score_{name}": float(getattr(finite, name)()) if finite.size else math.nan
            for name in ("std", "min", "max")
        },
    }


def log_selection(metrics: MetricsLogger | None, values: Mapping[str, float], reduce: str = "mean") -> None:
    """Logs values of one step.

    A result holds their mean over its steps, or with ``reduce="item"`` the last ones. The latter takes a fifth of the
    time, and ``train()`` makes one step only.
    """
    if metrics is not None:
        for name, value in values.items():
            metrics.log_value((SELECTION, name), value, reduce=reduce)


def log_reward(
    metrics: MetricsLogger, acted: Iterable[Any], rewards: Mapping[Any, float], reduce: str = "mean"
) -> None:
    """Logs the mean of a step's rewards over the agents that acted in it; NaN if there are none."""
    earned = [rewards[agent] for agent in acted if agent in rewards]
    mean = math.fsum(earned) / len(earned) if earned else math.nan  # the same in any order
    log_selection(metrics, {"reward": mean}, reduce)
