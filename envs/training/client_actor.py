"""What runs inside a Ray actor of ``ray_executor``; a plain class, so that it can be tried without Ray."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch

from envs.config import FederationConfig
from envs.data.client_samples import DataShape, FederationSamples
from envs.rng import RoundKey
from envs.training.aggregation import WeightedSum
from envs.training.client_worker import ClientWorker


@dataclass(frozen=True)
class ActorInfo:
    """Where an actor is."""

    pid: int  #: Its process.
    device: str  #: torch device it trains on.
    visible_gpus: str  #: ``$CUDA_VISIBLE_DEVICES``, which Ray sets to the GPUs it assigned; empty for none.
    no_meter: str = ""  #: Why the energy meter cannot be read there, if it cannot.


class ClientActor:
    """Trains and evaluates clients in a process of its own, to which Ray has assigned a GPU if it ``may_use_gpu``."""

    def __init__(
        self, config: FederationConfig, shape: DataShape, worker_class: type[ClientWorker], may_use_gpu: bool = False
    ) -> None:
        self._visible_gpus = os.environ.get("CUDA_VISIBLE_DEVICES", "") if may_use_gpu else ""
        self._device = "cuda:0" if may_use_gpu and torch.cuda.is_available() else "cpu"
        self._worker = worker_class(config, shape, self._device)

    def info(self) -> ActorInfo:
        """Returns where this actor is."""
        return ActorInfo(os.getpid(), self._device, self._visible_gpus, self._worker.no_meter)

    def assign(self, samples: FederationSamples) -> None:
        """Copies the samples of all clients to the device."""
        self._worker.assign(samples)

    def train(self, weights: np.ndarray, clients: Sequence[int], key: RoundKey, epochs: int) -> WeightedSum:
        """Trains ``clients`` from the flat ``float32[P]`` weights and returns one partial sum of all of them."""
        return self._worker.train(torch.tensor(weights), clients, key, epochs)

    def train_each(self, weights: np.ndarray, clients: Sequence[int], key: RoundKey, epochs: int) -> list[WeightedSum]:
        """Trains as ``train`` does and returns a sum for each client."""
        return self._worker.train_each(torch.tensor(weights), clients, key, epochs)

    def evaluate(self, weights: np.ndarray, groups: Sequence[Sequence[int]], training_samples: bool) -> np.ndarray:
        """Returns the ``float64[2, number of clients]`` accuracies and losses of the clients in ``groups``."""
        return self._worker.evaluate(torch.tensor(weights), groups, training_samples=training_samples)
