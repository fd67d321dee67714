"""Executors train and evaluate the clients of a round.

An executor receives flat weights and client ids and returns partial sums and metrics. Whatever the number of workers,
results are the same to the last bit: sums are integers (``aggregation``), every client's shuffle has a generator of its
own, a group of clients evaluated as one batch (``packing.evaluation_groups``) is never cut, and every worker computes
in ``FederationConfig.torch_threads`` threads.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from typing import Protocol

import numpy as np
import torch
from torch import Tensor

from envs.checks import SettingError, first_line
from envs.data.partition import Partition
from envs.rng import RoundKey
from envs.training.aggregation import ClientFailure, WeightedSum

logger = logging.getLogger(__name__)


class Executor(Protocol):
    """Trains and evaluates clients."""

    def assign(self, partition: Partition) -> None:
        """Gives the clients their data; called before anything else, and again when the seed changes."""

    def train(self, weights: Tensor, clients: Sequence[int], key: RoundKey, epochs: int) -> WeightedSum:
        """Trains every client in ``clients`` from the flat ``weights`` and returns the merged sum.

        Raises:
            ValueError: If a client's training raises or diverges; the message names it. With
                ``on_client_failure="drop"`` it is left out of the sum and listed in ``failed`` instead.
        """

    def train_each(self, weights: Tensor, clients: Sequence[int], key: RoundKey, epochs: int) -> dict[int, WeightedSum]:
        """Trains as ``train`` does and returns each client's sum by client; they add up to what ``train`` returns."""

    def accuracies(self, weights: Tensor, clients: Sequence[int]) -> np.ndarray:
        """Returns the ``float64[len(clients)]`` accuracy of ``weights`` on each client's test set."""

    def losses(self, weights: Tensor, clients: Sequence[int]) -> np.ndarray:
        """Returns the ``float64[len(clients)]`` mean cross-entropy of ``weights`` on each client's training set."""

    def close(self) -> None:
        """Releases its workers; it is not used after that."""


def apply_failure_policy(
    results: Iterable[WeightedSum], clients: Sequence[int], on_client_failure: str
) -> tuple[ClientFailure, ...]:
    """Returns the failures in ``results`` in the order of ``clients``, each logged.

    Raises:
        ValueError: With ``raise``, for the first client that failed.
    """
    order = {client: index for index, client in enumerate(clients)}
    failures = [failure for result in results for failure in result.failed]
    failures.sort(key=lambda failure: order[failure.client])
    if failures and on_client_failure == "raise":
        raise ValueError(failures[0].reason)
    for failure in failures:
        logger.warning("dropped: %s", failure.reason)
    return tuple(failures)


def warn_no_meter(reasons: Iterable[str]) -> None:
    """Warns once of each reason why the energy meter cannot be read, out of those of all workers."""
    for reason in sorted({*reasons} - {""}):
        logger.warning("%s", reason)


def check_device(device: str) -> None:
    """Raises a ValueError if torch cannot put a tensor on ``device`` and read it back."""
    try:
        torch.zeros(1, device=device).item()
    except (AssertionError, RuntimeError, NotImplementedError) as error:
        raise SettingError("device", device, f"it cannot be used ({first_line(error)}); use device='cpu'") from error
