"""An executor without training, so that what is left of a round is its bookkeeping."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from envs.config import FederationConfig
from envs.data.partition import Partition
from envs.rng import RoundKey
from envs.training import aggregation
from envs.training.aggregation import WeightedSum


class NullExecutor:
    """Trains nothing: weights are a function of round and clients, accuracies one of weights and client."""

    def __init__(self, config: FederationConfig) -> None:
        self._sizes: list[int] = []

    def assign(self, partition: Partition) -> None:
        """Keeps the numbers of samples."""
        self._sizes = [len(indices) for indices in partition.train]

    def train(self, weights: Tensor, clients: Sequence[int], key: RoundKey, epochs: int) -> WeightedSum:
        """See ``Executor``."""
        return aggregation.merged(self.train_each(weights, clients, key, epochs).values())

    def train_each(self, weights: Tensor, clients: Sequence[int], key: RoundKey, epochs: int) -> dict[int, WeightedSum]:
        """Every client returns the same weights."""
        trained = torch.full_like(weights, (7 * key.round + 3 * sum(clients)) % 16 / 16)
        return {client: aggregation.weighted(trained, self._sizes[client]) for client in clients}

    def accuracies(self, weights: Tensor, clients: Sequence[int]) -> np.ndarray:
        """``float64[len(clients)]`` in [0, 1)."""
        return np.array([(float(weights[0]) * (1 + client % 3) + client / 50) % 1 for client in clients])

    def losses(self, weights: Tensor, clients: Sequence[int]) -> np.ndarray:
        """``float64[len(clients)]`` in (0, 1]."""
        return 1 - self.accuracies(weights, clients)

    def close(self) -> None:
        """Has no workers to end."""
