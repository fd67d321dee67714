"""Multiply-accumulates (MACs) of a round: one pass of the policies, their training, and the federated training.

A training sample costs ``TRAINING_FACTOR`` = 3 forward passes: one forward, and a backward pass of about two (one
product for the gradient of the inputs, one for that of the weights). A policy sees one sample per participation and
trains on it for ``RL_EPOCHS`` epochs; so does the central network, as in the paper ("the same number of updates per
round, one per participating client"). The passes that value a buffered step once, for GAE, are not counted.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from bippo_rllib.policies.macs import central_policy_macs, policy_macs, training_macs
from experiments.methods import METHODS
from experiments.results.federation_record import FederationRecord
from experiments.results.run_info import RunInfo
from experiments.results.selector_network import SelectorNetwork
from experiments.results.setting_text import describe, described, from_text

RL_EPOCHS = 8
HIDDEN_SIZE = 128
CENTRAL_METHODS = ("ppo", "fppo")


@dataclass(frozen=True)
class RoundMacs:
    """MACs of a mean round of one method."""

    method: str
    participants: float  #: Clients that train.
    #: One pass of the actor and critic that a participation trains; None if the method trains none or is not known.
    network: int | None
    rl_training: float | None  #: Training the policies; None as above.
    fl_training: float | None  #: Training the federated model; None where the federation is not known.

    @property
    def fl_per_rl(self) -> float | None:
        """How often the RL training fits into the FL training of a round."""
        return self.fl_training / self.rl_training if self.fl_training and self.rl_training else None


def rl_training_macs(participants: float, network_macs: float) -> float:
    """Returns MACs of a round of RL training with the default epochs."""
    return training_macs(network_macs, participants, RL_EPOCHS)


def central_ratio(num_clients: int) -> float:
    """Returns how many times a pass of the central networks costs one of BIPPO's: 14.1 at 20 clients."""
    return central_policy_macs(num_clients) / policy_macs()


def round_macs(
    method: str, rows: pd.DataFrame, record: FederationRecord | None, network: SelectorNetwork | None = None
) -> RoundMacs:
    """Returns the MACs of one method, from who trained in its rows.

    Args:
        method: Its name.
        rows: Its rows.
        record: The federation; without it, FL training is None.
        network: What it trains; None if that is nothing, or not known.
    """
    participants = float(rows["num_trained"].mean())
    # Under churn the central networks are rebuilt for whoever is live, so their mean size counts.
    macs = None if network is None else _network_macs(network, round(float(rows["num_clients"].mean())))
    return RoundMacs(
        method=method,
        participants=participants,
        network=macs,
        rl_training=None if macs is None or network is None else training_macs(macs, participants, network.epochs),
        fl_training=None if record is None else _fl_training(rows, record),
    )


def _network_macs(network: SelectorNetwork, num_clients: int) -> int:
    if network.central:
        return central_policy_macs(num_clients, network.hidden_size, network.critic)
    return policy_macs(hidden_size=network.hidden_size, critic=network.critic)


def recorded_network(info: RunInfo | None, method: str, setting: str) -> SelectorNetwork | None:
    """Returns what run.json says of a method in one setting of a search; None if it trains nothing, or is not known.

    The networks of our own methods are known also where the record, of an earlier version, does not hold them.

    Raises:
        ValueError: If a setting of the network is none that it could have.
    """
    if info is not None and method in info.networks:
        settings = [describe(draw) for draw in from_text(info.draws)] or [""]
        return info.networks[method][settings.index(setting)] if setting in settings else None
    if method not in METHODS or not METHODS[method].learns:
        return None
    settings_now = {**(info.settings if info else {}), **described(setting)}
    return SelectorNetwork(
        central=method in CENTRAL_METHODS,
        epochs=_natural(settings_now, "num_epochs", RL_EPOCHS),
        hidden_size=_natural(settings_now, "hidden_size", HIDDEN_SIZE),
        critic=bool(settings_now.get("use_critic", METHODS[method].critic)),
    )


def _natural(settings: Mapping[str, Any], key: str, default: int) -> int:
    value = settings.get(key, default)
    if type(value) is not int or not 1 <= value < 2**31:
        raise ValueError(f"setting {key} is {value!r:.60}; expected a whole number of at least 1")
    return value


def _fl_training(rows: pd.DataFrame, record: FederationRecord) -> float:
    samples = np.array([client.num_samples for client in record.clients])
    per_round = float(np.mean([samples[np.asarray(clients, dtype=int)].sum() for clients in rows["trained"]]))
    return training_macs(record.model.macs_per_sample, per_round, record.local_epochs)
