"""Infos: what is known about each agent after ``reset`` and after every step."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, TypedDict, cast

import numpy as np

from envs.config import FederationConfig
from envs.episode_state import EpisodeState
from envs.rules.reward import OWN_EFFECT


class _Always(TypedDict):
    cost: Annotated[float, "Joules that this client's training would take in the next round."]
    budget: Annotated[float, "Joules that training may take in the next round, the same for all agents."]
    accuracy: Annotated[float, "Share of the client's own test samples that the model classifies correctly."]
    num_samples: Annotated[int, "Training samples of the client."]
    granted_j: Annotated[float, "Joules of its training in the last round, failed or not; 0 if it was not selected."]
    dropped: Annotated[bool, "It was selected in the last round and turned down, as the budget did not suffice."]
    failed: Annotated[bool, "It was selected in the last round, and its training failed."]


class Info(_Always, total=False):
    """The info of one agent; round 0 counts as a round for what is about updates."""

    loss: Annotated[float, "With ``with_loss``: mean cross-entropy on the client's training samples."]
    label_counts: Annotated[
        np.ndarray, "With ``with_label_counts``: ``int64[num_classes]`` training samples, as it labels them."
    ]
    own_reward: Annotated[
        float | None,
        "With ``leave_one_out`` and ``shapley``: the reward of its own effect; None if it did not train in the last "
        "round.",
    ]
    update_profile: Annotated[
        np.ndarray | None,
        "With ``update_profile_size``: ``float32[size]``, a sketch of what its training changed of the model per "
        "sample (``envs.rules.update_sketch``); None if it did not train in the last round.",
    ]
    output_bias_update: Annotated[
        np.ndarray | None,
        "With ``with_output_bias``: ``float32[num_classes]``, what its training changed of the last layer's bias; None "
        "if it did not train in the last round.",
    ]
    update_norm: Annotated[
        float | None,
        "With ``with_update_norm``: Euclidean length of what its training changed; None if it did not train in the "
        "last round.",
    ]


Infos = dict[str, Info]


def info(
    state: EpisodeState, client: int, num_samples: int, budget_j: float, reports: Mapping[str, Mapping[int, Any]]
) -> Info:
    """Returns the info of one client.

    Args:
        state: After a round.
        client: Client id.
        num_samples: Its training samples.
        budget_j: Joules that the training of all clients may take in the next round.
        reports: What ``requested_reports`` returned.
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
    return cast("Info", entries | {key: by_client.get(client) for key, by_client in reports.items()})


def requested_reports(
    config: FederationConfig, state: EpisodeState, label_counts: np.ndarray | None
) -> dict[str, Mapping[int, Any]]:
    """Returns the entries of infos that the configuration requests, by info key and client.

    Clients that have nothing to report are left out.

    Args:
        config: The federation.
        state: After a round.
        label_counts: ``int64[num_clients, num_classes]``, if they are requested.
    """
    reports: dict[str, Mapping[int, Any]] = {
        key: {client: report[key] for client, report in state.update_reports.items()} for key in config.update_reports
    }
    if label_counts is not None:
        reports["label_counts"] = dict(enumerate(label_counts))
    if config.reward in OWN_EFFECT:
        reports["own_reward"] = {} if state.last_round is None else state.last_round.own_rewards
    return reports
