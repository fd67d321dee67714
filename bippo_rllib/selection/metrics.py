"""What can be watched of a selection: RLlib's metrics under ``env_runners/selection``."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
from ray.rllib.utils.metrics.metrics_logger import MetricsLogger

#: Key of the group.
SELECTION = "selection"


def selection_metrics(
    suggestions: np.ndarray, costs: np.ndarray, budget: float, chosen: np.ndarray
) -> dict[str, float]:
    """What a step selected, and out of what.

    Args:
        suggestions: ``[N]`` as the sampler gets them, ``-inf`` for an agent that is no candidate.
        costs: ``[N]`` of each agent, in the environment's unit.
        budget: Likewise. A budget of 0 or infinity has no share.
        chosen: ``int[K]`` indices of the selected agents.

    Returns:
        Name -> value; what cannot be said is left out.
    """
    values = {
        "num_agents": float(len(costs)),
        "num_selected": float(len(chosen)),
        "spent": float(costs[chosen].sum()),
        "budget": float(budget),
    }
    if 0.0 < budget < math.inf:
        values["budget_share"] = values["spent"] / budget
    finite = suggestions[np.isfinite(suggestions)].astype(np.float64)
    if finite.size:
        values |= {f"suggestion_{name}": float(getattr(finite, name)()) for name in ("std", "min", "max")}
    return values


def log_selection(metrics: MetricsLogger | None, values: Mapping[str, float]) -> None:
    """Logs values of one step; a result has their mean over its steps, of which ``train()`` makes one."""
    if metrics is not None:
        for name, value in values.items():
            metrics.log_value((SELECTION, name), value, reduce="mean")


def log_reward(metrics: MetricsLogger, acted: Iterable[Any], rewards: Mapping[Any, float]) -> None:
    """Logs the mean of a step's rewards over the agents that acted in it; nothing if there are none."""
    earned = [rewards[agent] for agent in acted if agent in rewards]
    if earned:
        log_selection(metrics, {"reward": math.fsum(earned) / len(earned)})  # whatever the order
