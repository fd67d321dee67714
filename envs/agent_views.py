"""What agents see of the state: observations and infos by client id."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from envs.episode_state import EpisodeState
from envs.observation import build_observations


def observation_rows(
    state: EpisodeState, clients: Sequence[int], num_samples: np.ndarray, budget_j: float, high: np.ndarray
) -> np.ndarray:
    """Observations of ``clients``, ``float32[len(clients), 5]``, cut off at ``high``.

    The mean accuracy is that over the live clients; over ``clients`` if none is live any more.

    Args:
        state: After a round.
        clients: Client ids.
        num_samples: ``int64[num_clients]`` training samples.
        budget_j: Joules of the next round.
        high: ``float32[5]`` upper bounds.
    """
    index = list(clients)
    rows = build_observations(
        state.accuracies[index],
        num_samples[index],
        state.costs_j[index],
        budget_j,
        state.participated[index],
        mean_accuracy=float(np.mean(state.accuracies[list(state.live) or index])),
        most_samples=int(np.max(num_samples)),
    )
    return np.minimum(rows, high, out=rows)


def info(state: EpisodeState, client: int, num_samples: int, budget_j: float) -> dict[str, Any]:
    """The info of one client, see ``envs.federated_rounds``; ``budget_j`` is what training may cost in all."""
    entries = {
        "cost": float(state.costs_j[client]),
        "budget": budget_j,
        "accuracy": float(state.accuracies[client]),
        "num_samples": num_samples,
        "budget_share_j": float(state.granted_j[client]),
        "dropped": bool(state.dropped[client]),
        "failed": bool(state.failed[client]),
    }
    if state.losses is not None:
        entries["loss"] = float(state.losses[client])
    return entries
