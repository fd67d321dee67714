"""Multiply-accumulates (MACs) of a round: one pass of the policies, their training, and the federated training.

A training sample costs ``TRAINING_FACTOR`` = 3 forward passes: one forward, and a backward pass of about two (one
product for the gradient of the inputs, one for that of the weights). A policy sees one sample per participation and
trains on it for ``RL_EPOCHS`` epochs; so does the central network, as in the paper ("the same number of updates per
round, one per participating client"). The passes that value a buffered step once, for GAE, are not counted.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd

from bippo_rllib.policies.macs import central_policy_macs, policy_macs, training_macs
from experiments.methods import METHODS
from experiments.results.federation_record import FederationRecord

RL_EPOCHS = 8
HIDDEN_SIZE = 128
CENTRAL_METHODS = ("ppo", "fppo")


@dataclass(frozen=True)
class RoundMacs:
    """MACs of a mean round of one method."""

    method: str
    participants: float  #: Clients that train.
    #: One pass of the actor and critic that a participation trains; None if the method trains none.
    network: int | None
    rl_training: float | None  #: Training the policies; None if the method trains none.
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
    method: str,
    rows: pd.DataFrame,
    record: FederationRecord | None,
    epochs: int = RL_EPOCHS,
    hidden_size: int = HIDDEN_SIZE,
    critic: bool = True,
) -> RoundMacs:
    """Returns the MACs of one method, from who trained in its rows; without ``record`` FL training is None."""
    participants = float(rows["num_trained"].mean())
    # Under churn the central networks are rebuilt for whoever is live, so their mean size counts.
    network = _network_macs(method, round(float(rows["num_clients"].mean())), hidden_size, critic)
    return RoundMacs(
        method=method,
        participants=participants,
        network=network,
        rl_training=None if network is None else training_macs(network, participants, epochs),
        fl_training=None if record is None else _fl_training(rows, record),
    )


def _network_macs(method: str, num_clients: int, hidden_size: int, critic: bool) -> int | None:
    if method in CENTRAL_METHODS:
        return central_policy_macs(num_clients, hidden_size, critic)
    if method in METHODS and not METHODS[method].learns:
        return None
    return policy_macs(hidden_size=hidden_size, critic=critic)


def _fl_training(rows: pd.DataFrame, record: FederationRecord) -> float:
    samples = np.array([client.num_samples for client in record.clients])
    per_round = float(np.mean([samples[np.asarray(clients, dtype=int)].sum() for clients in rows["trained"]]))
    return training_macs(record.model.macs_per_sample, per_round, record.local_epochs)
