"""Who does the work of a round. ``SerialExecutor`` does it in this process, one client after the other.

An executor is handed flat weights and client ids and returns partial sums and metrics, so that workers elsewhere
(``ray_executor``) can take its place. Whatever the number of workers, results are the same to the last bit: sums
are integers (``aggregation``), every client's shuffle has a generator of its own, and a group of clients evaluated
as one batch (``packing.evaluation_groups``) is never cut. One torch thread a process is part of that:
another number of threads adds the terms of a matrix product in another order.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor

from envs.config import FederationConfig
from envs.data.client_samples import DataShape, gather
from envs.data.datasets import load_dataset
from envs.data.partition import Partition
from envs.round_key import RoundKey
from envs.training.aggregation import WeightedSum
from envs.training.client_worker import ClientWorker
from envs.training.packing import evaluation_shares

logger = logging.getLogger(__name__)


class Executor(Protocol):
    """Trains and evaluates clients."""

    def assign(self, partition: Partition) -> None:
        """Gives the clients their data. Called before anything else, and again when the seed changes."""

    def train(self, weights: Tensor, clients: Sequence[int], key: RoundKey, epochs: int) -> WeightedSum:
        """Trains every client in ``clients`` from the flat ``weights`` and returns the merged sum.

        Raises:
            ValueError: If a client's training raises or diverges; the message names it. With
                ``on_client_failure="drop"`` it is left out of the sum and listed in ``failed`` instead.
        """

    def accuracies(self, weights: Tensor, clients: Sequence[int]) -> np.ndarray:
        """``float64[len(clients)]`` accuracy of ``weights`` on each client's test set."""

    def losses(self, weights: Tensor, clients: Sequence[int]) -> np.ndarray:
        """``float64[len(clients)]`` mean cross-entropy of ``weights`` on each client's training set."""

    def close(self) -> None:
        """Gives back what it holds; it is not used after that."""


def new_executor(config: FederationConfig) -> Executor:
    """What ``config.executor`` names.

    ``auto`` is Ray actors where Ray runs already and has GPUs to give to them, else serial; it never starts Ray.

    Raises:
        ValueError: If ``ray`` is asked for and not installed, or has less than the actors need.
    """
    if config.executor == "serial" or (config.executor == "auto" and not _ray_runs()):
        return SerialExecutor(config)
    try:
        from envs.training.ray_executor import RayExecutor, plan_here
    except ImportError as error:
        raise ValueError(f"executor='ray' needs Ray ({error}); pip install ray, or use executor='serial'") from error
    plan = plan_here(config.execution)
    return SerialExecutor(config) if plan is None else RayExecutor(config, plan)


def _ray_runs() -> bool:
    """Without importing Ray, which takes seconds and may not be installed."""
    ray: Any = sys.modules.get("ray")
    return ray is not None and hasattr(ray, "is_initialized") and ray.is_initialized()


class SerialExecutor:
    """Trains one client after the other in this process, on ``config.device``."""

    def __init__(self, config: FederationConfig) -> None:
        self._config = config
        self._dataset = load_dataset(config.dataset, config.data_dir)
        check_device(config.device)
        self._worker = ClientWorker(config, DataShape.of(self._dataset), config.device)

    def assign(self, partition: Partition) -> None:
        """Copies each client's samples to the device."""
        samples = gather(self._dataset, partition)
        self._sizes = {"test": samples.test.sizes, "train": samples.train.sizes}
        self._worker.assign(samples)

    def train(self, weights: Tensor, clients: Sequence[int], key: RoundKey, epochs: int) -> WeightedSum:
        """See ``Executor``."""
        return judged(self._worker.train(weights, clients, key, epochs), clients, self._config)

    def accuracies(self, weights: Tensor, clients: Sequence[int]) -> np.ndarray:
        """See ``Executor``."""
        (groups,) = evaluation_shares(tuple(clients), self._sizes["test"], num_workers=1).groups
        return self._worker.evaluate(weights, groups, training_samples=False)[0]

    def losses(self, weights: Tensor, clients: Sequence[int]) -> np.ndarray:
        """See ``Executor``."""
        (groups,) = evaluation_shares(tuple(clients), self._sizes["train"], num_workers=1).groups
        return self._worker.evaluate(weights, groups, training_samples=True)[1]

    def close(self) -> None:
        """See ``Executor``."""


def judged(result: WeightedSum, clients: Sequence[int], config: FederationConfig) -> WeightedSum:
    """The result, its failures in the order of ``clients`` and on the CPU, if ``on_client_failure`` lets it pass.

    Raises:
        ValueError: For the first client that failed.
    """
    places = {client: place for place, client in enumerate(clients)}
    failed = tuple(sorted(result.failed, key=lambda failure: places[failure.client]))
    if failed and config.on_client_failure == "raise":
        raise ValueError(failed[0].reason)
    for failure in failed:
        logger.warning("dropped: %s", failure.reason)
    return WeightedSum(result.total.cpu(), result.num_samples, result.bound, failed)


def check_device(device: str) -> None:
    """Raises a ValueError if torch cannot put a tensor on ``device`` and read it back."""
    try:
        torch.zeros(1, device=device).item()
    except (AssertionError, RuntimeError, NotImplementedError) as error:
        message = str(error).splitlines()[0]
        raise ValueError(f"device {device!r} cannot be used: {message}; use device='cpu'") from error
