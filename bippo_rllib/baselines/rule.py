"""Base of the rules of published methods: infos in, an order of clients out. NumPy only."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from bippo_rllib.as_numbers import as_float
from bippo_rllib.selection.budget_sampler import BUDGET_TOLERANCE
from bippo_rllib.selection.info_entry import entry
from bippo_rllib.setting_error import shown


class Rule(ABC):
    """Orders the clients of a round by what they report; the first are picked first.

    Rules know clients by name; a client that returns keeps its name. Clients that do not fit the budget are skipped, so
    that a rule may order more clients than the budget allows.
    """

    def scores(
        self,
        clients: Sequence[str],
        infos: Sequence[Mapping[str, Any]],
        costs: np.ndarray,
        budget: float,
        candidates: np.ndarray,
    ) -> np.ndarray:
        """Observes all clients, orders the candidates, and returns scores by which the sampler ``greedy`` picks so.

        Args:
            clients: ``[N]`` names of the live clients.
            infos: ``[N]`` latest info of each.
            costs: ``float64[N]`` cost of each, at least 0.
            budget: Budget of the round, in the same unit.
            candidates: ``bool[N]`` whether each may be picked.

        Returns:
            ``float64[N]``, the highest for the first, ``-inf`` for clients that are not in the order.
        """
        self.observe(clients, infos)
        scores, index = np.full(len(clients), -np.inf), np.flatnonzero(candidates)
        if index.size:
            names, theirs = [clients[i] for i in index.tolist()], [infos[i] for i in index.tolist()]
            order = self.order(names, theirs, costs[index], budget)
            scores[index[list(order)]] = np.arange(len(order), 0, -1)
        return scores

    def observe(self, clients: Sequence[str], infos: Sequence[Mapping[str, Any]]) -> None:  # noqa: B027
        """Records what all live clients report, candidates or not; called before ``order``. Does nothing here."""

    @abstractmethod
    def order(
        self, clients: Sequence[str], infos: Sequence[Mapping[str, Any]], costs: np.ndarray, budget: float
    ) -> Sequence[int]:
        """Orders the clients of one round; called once a round.

        Args:
            clients: ``[N]`` names of the candidates.
            infos: ``[N]`` latest info of each.
            costs: ``float64[N]`` cost of each, at least 0; one of infinite cost is never picked.
            budget: Budget of the round, in the same unit; may be infinite.

        Returns:
            Indices, first pick first; clients without one are not picked, even if budget is left.
        """

    @abstractmethod
    def get_state(self) -> dict[str, Any]:
        """Returns the state to keep from round to round, as plain Python and NumPy values."""

    @abstractmethod
    def set_state(self, state: Mapping[str, Any]) -> None:
        """Restores a ``state`` that ``get_state`` returned."""


def affordable(costs: np.ndarray, budget: float) -> np.ndarray:
    """Returns ``bool[N]``: clients that fit the budget on their own."""
    return np.isfinite(costs) & (costs <= budget * (1.0 + BUDGET_TOLERANCE))


def numbers(
    clients: Sequence[str], infos: Sequence[Mapping[str, Any]], key: str, needs: str, *, optional: bool = False
) -> np.ndarray:
    """Returns ``float64[N]``, what each info has under ``key``; NaN where that is None, if ``optional``.

    Args:
        clients: ``[N]`` names, for the error.
        infos: ``[N]`` infos.
        key: Info key.
        needs: End of the error message: what needs the key, and how to get it.
        optional: Whether None may stand for no number.

    Raises:
        ValueError: If an info lacks the key or has no finite number there.
    """
    values = np.full(len(clients), np.nan)
    for i, (client, info) in enumerate(zip(clients, infos, strict=True)):
        value = entry(client, info, key, needs)
        if value is None and optional:
            continue
        if value is None:
            raise ValueError(f"the info of {client!r} has no number under {key!r}, which {needs}")
        number = as_float(value)
        if number is None:
            raise ValueError(f"the info of {client!r} has {key!r} = {shown(value)}; it must be a number")
        values[i] = number
        if not np.isfinite(values[i]):
            raise ValueError(f"the info of {client!r} has {key!r} = {value}; it must be a finite number")
    return values
