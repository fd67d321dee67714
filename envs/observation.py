"""What agents see: observations, ``float32[5]``, their space, and infos."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import gymnasium
import numpy as np

from envs.episode_state import EpisodeState

#: Columns of an observation.
MEAN_ACCURACY, DATA_SIZE, OWN_ACCURACY, COST_SHARE, TRAINED_LAST_ROUND = range(5)
OBSERVATION_SIZE = 5


def observation_space(largest_cost_share: float) -> gymnasium.spaces.Box:
    """From 0 to 1 in every column, but to ``largest_cost_share`` in that of the energy."""
    high = np.ones(OBSERVATION_SIZE, dtype=np.float32)
    high[COST_SHARE] = largest_cost_share
    return gymnasium.spaces.Box(np.zeros_like(high), high, dtype=np.float32)


def observation_rows(
    state: EpisodeState, clients: Sequence[int], num_samples: np.ndarray, budget_j: float, high: np.ndarray
) -> np.ndarray:
    """Observations of ``clients``, columns as named by the constants of this module, cut off at ``high``.

    The mean accuracy is that over the live clients; over ``clients`` if none is live any more.

    Args:
        state: After a round.
        clients: Client ids.
        num_samples: ``int64[num_clients]`` training samples.
        budget_j: Joules the next round may spend in all.
        high: ``float32[5]`` upper bounds.

    Returns:
        ``float32[len(clients), 5]``.
    """
    index = list(clients)
    rows = np.empty((len(index), OBSERVATION_SIZE), dtype=np.float32)
    rows[:, MEAN_ACCURACY] = np.mean(state.accuracies[list(state.live) or index])
    rows[:, DATA_SIZE] = num_samples[index] / np.max(num_samples)
    rows[:, OWN_ACCURACY] = state.accuracies[index]
    rows[:, COST_SHARE] = cost_shares(state.costs_j[index], budget_j)
    rows[:, TRAINED_LAST_ROUND] = state.participated[index]
    return np.minimum(rows, high, out=rows)


def cost_shares(costs_j: np.ndarray, budget_j: float) -> np.ndarray:
    """``cost / budget``, ``[N]``: 0 with an infinite budget, 1 with a budget of 0, of which no share can be taken."""
    if math.isinf(budget_j):
        return np.zeros(len(costs_j))
    if budget_j == 0.0:
        return np.ones(len(costs_j))
    return np.asarray(costs_j) / budget_j


def info(
    state: EpisodeState, client: int, num_samples: int, budget_j: float, with_update_profile: bool = False
) -> dict[str, Any]:
    """The info of one client, see ``envs.federated_rounds``; ``budget_j`` is what training may cost in all."""
    entries: dict[str, Any] = {
        "cost": float(state.costs_j[client]),
        "budget": budget_j,
        "accuracy": float(state.accuracies[client]),
        "num_samples": num_samples,
        "granted_j": float(state.granted_j[client]),
        "dropped": bool(state.dropped[client]),
        "failed": bool(state.failed[client]),
    }
    if state.losses is not None:
        entries["loss"] = float(state.losses[client])
    if with_update_profile:
        entries["update_profile"] = state.update_profiles.get(client)
    return entries
