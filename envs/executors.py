"""Who does the work of a round. ``SerialExecutor`` does it in this process, one client after the other.

An executor is handed flat weights and client ids and returns partial sums and metrics, so that workers elsewhere can
take its place. Whatever the number of workers, results must be the same to the last bit: sums are integers
(``envs.aggregation``), every client's shuffle has a generator of its own, and a group of clients evaluated as one batch
(``envs.local_training.evaluation_groups``) is never cut.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import torch
from torch import Tensor

from envs import aggregation
from envs.config import FederationConfig
from envs.datasets import load_dataset
from envs.local_training import ClientData, evaluate, evaluation_groups, train_locally
from envs.models import build_model, get_flat, set_flat
from envs.partition import Partition
from envs.rng import keyed_rng


@dataclass(frozen=True)
class RoundKey:
    """What the shuffles of a round are keyed by, besides the client."""

    seed: int
    episode: int
    round: int


class Executor(Protocol):
    """Trains and evaluates clients."""

    def assign(self, partition: Partition) -> None:
        """Gives the clients their data. Called before anything else, and again when the seed changes."""

    def train(self, weights: Tensor, clients: Sequence[int], key: RoundKey, epochs: int) -> aggregation.WeightedSum:
        """Trains every client in ``clients`` from the flat ``weights`` and returns the merged sum.

        Raises:
            ValueError: If a client's training diverges; the message names it.
        """

    def accuracies(self, weights: Tensor, clients: Sequence[int]) -> np.ndarray:
        """``float64[len(clients)]`` accuracy of ``weights`` on each client's test set."""

    def losses(self, weights: Tensor, clients: Sequence[int]) -> np.ndarray:
        """``float64[len(clients)]`` mean cross-entropy of ``weights`` on each client's training set."""


class SerialExecutor:
    """Trains one client after the other in this process, on ``config.device``."""

    def __init__(self, config: FederationConfig) -> None:
        self._config = config
        self._dataset = load_dataset(config.dataset, config.data_dir)
        check_device(config.device)
        model = build_model(config.model_name, self._dataset.input_shape, len(self._dataset.classes))
        self._model = model.to(config.device).to(memory_format=torch.channels_last)
        self._clients: list[ClientData] = []

    def assign(self, partition: Partition) -> None:
        """Copies each client's samples to the device, scaled to [-1, 1] and channels-last."""
        data = self._dataset
        self._clients = [
            ClientData(
                *self._resident(data.train_images, data.train_labels, train),
                *self._resident(data.test_images, data.test_labels, test),
            )
            for train, test in zip(partition.train, partition.test, strict=True)
        ]

    def train(self, weights: Tensor, clients: Sequence[int], key: RoundKey, epochs: int) -> aggregation.WeightedSum:
        """See ``Executor``."""
        return aggregation.merged(self._train_one(weights, client, key, epochs) for client in clients)

    def accuracies(self, weights: Tensor, clients: Sequence[int]) -> np.ndarray:
        """See ``Executor``."""
        data = [self._clients[client] for client in clients]
        return self._evaluate(weights, [(client.test_images, client.test_labels) for client in data])[0]

    def losses(self, weights: Tensor, clients: Sequence[int]) -> np.ndarray:
        """See ``Executor``."""
        data = [self._clients[client] for client in clients]
        return self._evaluate(weights, [(client.train_images, client.train_labels) for client in data])[1]

    def _train_one(self, weights: Tensor, client: int, key: RoundKey, epochs: int) -> aggregation.WeightedSum:
        data, config = self._clients[client], self._config
        set_flat(self._model, weights)
        try:
            train_locally(
                self._model,
                data.train_images,
                data.train_labels,
                epochs=epochs,
                batch_size=config.local_batch_size,
                lr=config.learning_rate,
                rng=keyed_rng("shuffle", key.seed, key.episode, client, key.round),
            )
            return aggregation.weighted(get_flat(self._model), len(data.train_labels))
        except (FloatingPointError, ValueError) as error:
            where = f"client {client} diverged in round {key.round} at lr={config.learning_rate}"
            raise ValueError(f"{where}: {error}; lower lr") from error

    def _evaluate(self, weights: Tensor, data: list[tuple[Tensor, Tensor]]) -> np.ndarray:
        """``float64[2, len(data)]`` accuracies and losses."""
        set_flat(self._model, weights)
        results = []
        for group in evaluation_groups([len(labels) for _, labels in data]):
            images, labels = (torch.cat(parts) for parts in zip(*(data[member] for member in group), strict=True))
            results.append(evaluate(self._model, images, labels, [len(data[member][1]) for member in group]))
        return np.concatenate(results, axis=1)

    def _resident(self, images: Tensor, labels: Tensor, indices: np.ndarray) -> tuple[Tensor, Tensor]:
        index = torch.from_numpy(indices)
        scaled = self._dataset.scaled(images[index]).to(self._config.device, memory_format=torch.channels_last)
        return scaled, labels[index].to(self._config.device)


def check_device(device: str) -> None:
    """Raises a ValueError if torch cannot put a tensor on ``device``."""
    try:
        torch.zeros(1, device=device)
    except (AssertionError, RuntimeError, NotImplementedError) as error:
        message = str(error).splitlines()[0]
        raise ValueError(f"device {device!r} cannot be used: {message}; use device='cpu'") from error
