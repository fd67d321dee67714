"""Training in this process, one client after the other."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np
from torch import Tensor

from envs.config import FederationConfig
from envs.data.client_samples import DataShape, gather
from envs.data.datasets import load_dataset
from envs.data.partition import Partition
from envs.rng import RoundKey
from envs.training.aggregation import WeightedSum
from envs.training.client_worker import ClientWorker
from envs.training.executor import apply_failure_policy, check_device, warn_no_meter
from envs.training.packing import evaluation_shares


class SerialExecutor:
    """Trains one client after the other in this process, on ``config.device``."""

    def __init__(self, config: FederationConfig) -> None:
        self._config = config
        self._dataset = load_dataset(config.dataset, config.data_dir)
        check_device(config.device)
        self._worker = ClientWorker(config, DataShape.of(self._dataset), config.device)
        warn_no_meter([self._worker.no_meter])

    def assign(self, partition: Partition) -> None:
        """Copies each client's samples in ``partition`` to the device."""
        samples = gather(self._dataset, partition)
        self._train_sizes, self._test_sizes = samples.train.sizes, samples.test.sizes
        self._worker.assign(samples)

    def train(self, weights: Tensor, clients: Sequence[int], key: RoundKey, epochs: int) -> WeightedSum:
        """Trains every client; see ``Executor``."""
        result = self._worker.train(weights, clients, key, epochs)
        failed = apply_failure_policy([result], clients, self._config.on_client_failure)
        return dataclasses.replace(result, total=result.total.cpu(), failed=failed)

    def train_each(self, weights: Tensor, clients: Sequence[int], key: RoundKey, epochs: int) -> dict[int, WeightedSum]:
        """Trains every client; see ``Executor``."""
        updates = self._worker.train_each(weights, clients, key, epochs)
        apply_failure_policy(updates, clients, self._config.on_client_failure)
        return dict(zip(clients, updates, strict=True))

    def accuracies(self, weights: Tensor, clients: Sequence[int]) -> np.ndarray:
        """Returns each client's accuracy; see ``Executor``."""
        return self._evaluate(weights, clients, training_samples=False)[0]

    def losses(self, weights: Tensor, clients: Sequence[int]) -> np.ndarray:
        """Returns each client's mean cross-entropy; see ``Executor``."""
        return self._evaluate(weights, clients, training_samples=True)[1]

    def close(self) -> None:
        """Does nothing, as there are no workers to release."""

    def _evaluate(self, weights: Tensor, clients: Sequence[int], training_samples: bool) -> np.ndarray:
        """``float64[2, len(clients)]`` accuracies and losses."""
        sizes = self._train_sizes if training_samples else self._test_sizes
        (groups,) = evaluation_shares(tuple(clients), sizes, num_workers=1).groups
        return self._worker.evaluate(weights, groups, training_samples=training_samples)
