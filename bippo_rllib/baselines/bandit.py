"""A bandit instead of PPO: computes suggestions from the sum of each client's rewards. NumPy only."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np


class RewardRecord:
    """Number and sum of each client's rewards; clients that leave keep their records."""

    def __init__(self) -> None:
        self._counts: dict[str, int] = {}
        self._sums: dict[str, float] = {}
        self._squares = 0.0

    def add(self, client: str, reward: float) -> None:
        """Records one reward of a client."""
        self._counts[client] = self._counts.get(client, 0) + 1
        self._sums[client] = self._sums.get(client, 0.0) + reward
        self._squares += reward**2

    def __contains__(self, client: object) -> bool:
        """Whether a client was ever rewarded."""
        return client in self._counts

    def mean(self, client: str) -> float:
        """Returns the mean reward of a client that was rewarded."""
        return self._sums[client] / self._counts[client]

    def logits(self, clients: Sequence[str], gain: float) -> np.ndarray:
        """Returns ``gain * (sum of standardised rewards) / sqrt(n + 1)`` for each client.

        Rewards are standardised by mean and population standard deviation over those of all clients so far. The sum of
        n of them has a standard deviation of sqrt(n) if they are drawn alike, so that a logit is about ``gain`` times
        the number of standard errors by which a client's mean exceeds the mean of all.

        Args:
            clients: ``[N]`` names of the clients.
            gain: Factor in the formula.

        Returns:
            ``float64[N]``; 0 for a client that was never rewarded, and for all while rewards do not differ.
        """
        counts = np.array([self._counts.get(client, 0) for client in clients], dtype=np.float64)
        sums = np.array([self._sums.get(client, 0.0) for client in clients])
        number = sum(self._counts.values())
        if not number:
            return np.zeros(len(clients))
        mean, square = sum(self._sums.values()) / number, self._squares / number
        variance = square - mean**2
        if variance <= 1e-12 * square:  # only rounding
            return np.zeros(len(clients))
        return gain * (sums - counts * mean) / np.sqrt(variance * (counts + 1.0))

    def get_state(self) -> dict[str, Any]:
        """Returns the records of all clients ever rewarded."""
        return {"counts": dict(self._counts), "sums": dict(self._sums), "squares": self._squares}

    def set_state(self, state: Mapping[str, Any]) -> None:
        """Restores a ``state`` that ``get_state`` returned."""
        self._counts, self._sums = dict(state["counts"]), dict(state["sums"])
        self._squares = state["squares"]
