"""What agents see: observations, ``float32[5]``, their space, and infos.

Every agent's info has, after ``reset`` and every step:

- ``cost``: joules of this client in the next round.
- ``budget``: joules that training may cost in the next round, the same for all.
- ``accuracy``: of the model on the client's own test set; ``num_samples``: its training samples.
- ``granted_j``: joules granted in the last round, 0 if it was not selected.
- ``dropped``: it was to train and was turned down; ``failed``: it was selected and its training failed.

If the configuration asks for them also:

- ``loss`` (``with_loss``): mean cross-entropy on the client's training samples.
- ``label_counts`` (``with_label_counts``): ``int64[num_classes]`` training samples of each class, as it labels them.

And of a client that trained in the last round, else None:

- ``own_reward`` (rewards of single participants).
- ``update_profile`` (``update_profile_size``): ``float32[size]``, what its training changed of the model per sample, as
  a sketch (``envs.rules.update_sketch``).
- ``output_bias_update`` (``with_output_bias``): ``float32[num_classes]``, what it changed of the last layer's bias.
- ``update_norm`` (``with_update_norm``): the length of what it changed.

Round 0 counts for what is about updates.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import gymnasium
import numpy as np

from envs.config import FederationConfig
from envs.episode_state import EpisodeState
from envs.rules import observation
from envs.rules.observation import COST_SHARE, OBSERVATION_SIZE
from envs.rules.reward import OWN_EFFECT


def observation_space(largest_cost_share: float) -> gymnasium.spaces.Box:
    """From 0 to 1 in every column, but to ``largest_cost_share`` in that of the energy."""
    high = np.ones(OBSERVATION_SIZE, dtype=np.float32)
    high[COST_SHARE] = largest_cost_share
    return gymnasium.spaces.Box(np.zeros_like(high), high, dtype=np.float32)


def observation_rows(
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
    return observation.observation_rows(
        state.accuracies[index],
        num_samples[index],
        state.costs_j[index],
        state.participated[index],
        mean_accuracy=float(np.mean(state.accuracies[list(state.live) or index])),
        most_samples=float(np.max(num_samples)),
        budget_j=budget_j,
        high=high,
    )


def info(
    state: EpisodeState, client: int, num_samples: int, budget_j: float, asked: Mapping[str, Mapping[int, Any]]
) -> dict[str, Any]:
    """The info of one client, see ``envs.federated_rounds``.

    Args:
        state: After a round.
        client: Client id.
        num_samples: Its training samples.
        budget_j: What training may cost in all.
        asked: What ``asked_reports`` returned.
    """
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
    return entries | {key: by_client.get(client) for key, by_client in asked.items()}


def asked_reports(
    config: FederationConfig, state: EpisodeState, label_counts: np.ndarray | None
) -> dict[str, Mapping[int, Any]]:
    """What infos have because the configuration asks for it: by info key and client, who has nothing to report absent.

    Args:
        config: The federation.
        state: After a round.
        label_counts: ``int64[num_clients, num_classes]``, if they are asked for.
    """
    asked: dict[str, Mapping[int, Any]] = {
        key: {client: report[key] for client, report in state.update_reports.items()} for key in config.update_reports
    }
    if label_counts is not None:
        asked["label_counts"] = dict(enumerate(label_counts))
    if config.reward in OWN_EFFECT:
        asked["own_reward"] = {} if state.last_round is None else state.last_round.own_rewards
    return asked
