"""Observations, ``float32[5]``, and their space."""

from __future__ import annotations

from collections.abc import Sequence

import gymnasium
import numpy as np

from envs.episode_state import EpisodeState
from envs.rules.observation import COST_SHARE, OBSERVATION_SIZE, observation_rows


def observation_space(largest_cost_share: float) -> gymnasium.spaces.Box:
    """Returns the space of observations: from 0 to 1, or to ``largest_cost_share`` in the energy's column."""
    high = np.ones(OBSERVATION_SIZE, dtype=np.float32)
    high[COST_SHARE] = largest_cost_share
    return gymnasium.spaces.Box(np.zeros_like(high), high, dtype=np.float32)


def observe(
    state: EpisodeState, clients: Sequence[int], num_samples: np.ndarray, budget_j: float, high: np.ndarray
) -> np.ndarray:
    """Computes the observations of ``clients``, see ``envs.rules.observation``.

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
    return observation_rows(
        state.accuracies[index],
        num_samples[index],
        state.costs_j[index],
        state.trained[index],
        mean_accuracy=float(np.mean(state.accuracies[list(state.live) or index])),
        most_samples=float(np.max(num_samples)),
        budget_j=budget_j,
        high=high,
    )
