"""Multiply-accumulates (MACs) of a round: selecting, training the policies, and training the federated model.

Conventions. A training sample costs `TRAINING_FACTOR` = 3 forward passes: one forward, and a backward pass of about two
(one product for the gradient of the inputs, one for that of the weights). A policy sees one sample per participation
and trains on it for `RL_EPOCHS` epochs; so does the central network, as in the paper ("the same number of updates per
round, one per participating client"). The passes that value a buffered step once, for GAE, are not counted.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from bippo_rllib.policies.macs import central_policy_macs, policy_macs
from experiments.methods import METHODS
from experiments.results.federation_record import FederationRecord

TRAINING_FACTOR = 3
RL_EPOCHS = 8
HIDDEN_SIZE = 128
CENTRAL_METHODS = ("ppo", "fppo")


@dataclass(frozen=True)
class RoundMacs:
    """MACs of one method: `network` of one pass of actor and critic, `rl_training` and `fl_training` of a mean round.

    `network` and `rl_training` are None for methods that train no policy; `fl_training` where the federation is not
    known.
    """

    method: str
    participants: float
    network: int | None
    rl_training: float | None
    fl_training: float | None

    @property
    def fl_per_rl(self) -> float | None:
        """How often the RL training fits into the FL training of a round."""
        return self.fl_training / self.rl_training if self.fl_training and self.rl_training else None


def training_macs(macs_per_sample: float, samples: float, epochs: int) -> float:
    """`samples x epochs x 3 x forward`."""
    return TRAINING_FACTOR * macs_per_sample * samples * epochs


def network_macs(method: str, num_clients: int, hidden_size: int = HIDDEN_SIZE) -> int | None:
    """One pass of the actor and critic that a participation trains; None if the method trains none."""
    if method in CENTRAL_METHODS:
        return central_policy_macs(num_clients, hidden_size)
    return policy_macs(hidden_size=hidden_size) if method not in METHODS or METHODS[method].learns else None


def central_ratio(num_clients: int) -> float:
    """How many times a pass of the central networks costs one of BIPPO's: 14.1 at 20 clients, 692.5 at 1,000."""
    return central_policy_macs(num_clients) / policy_macs()


def power_of_ten(value: float) -> str:
    """4.0·10⁴"""
    mantissa, _, exponent = f"{value:.1e}".partition("e")
    return f"{mantissa}·10{str(int(exponent)).translate(str.maketrans('-0123456789', '⁻⁰¹²³⁴⁵⁶⁷⁸⁹'))}"


def round_macs(rows: pd.DataFrame, record: FederationRecord | None, settings: Mapping[str, Any]) -> list[RoundMacs]:
    """One entry per method, from who was selected in its rows.

    Args:
        rows: Of one or more methods.
        record: The federation; without it FL training is None.
        settings: Algorithm settings of the study; `num_epochs` and `hidden_size` count.
    """
    return [_round_macs(str(method), group, record, settings) for method, group in rows.groupby("method", sort=False)]


def _round_macs(
    method: str, rows: pd.DataFrame, record: FederationRecord | None, settings: Mapping[str, Any]
) -> RoundMacs:
    participants = float(rows["num_trained"].mean())
    # Under churn the central networks are rebuilt for whoever is live, so their mean size counts.
    network = network_macs(method, round(float(rows["num_clients"].mean())), settings.get("hidden_size", HIDDEN_SIZE))
    epochs = settings.get("num_epochs", RL_EPOCHS)
    return RoundMacs(
        method=method,
        participants=participants,
        network=network,
        rl_training=None if network is None else training_macs(network, participants, epochs),
        fl_training=None if record is None else _fl_training(rows["trained"].tolist(), record),
    )


def _fl_training(selected: Sequence[Sequence[int]], record: FederationRecord) -> float:
    samples = np.array([client.num_samples for client in record.clients])
    per_round = float(np.mean([samples[np.asarray(clients, dtype=int)].sum() for clients in selected]))
    return training_macs(record.model.macs_per_sample, per_round, record.local_epochs)
