"""Cyclic participation: every client has a turn before any has a second one. NumPy only."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from bippo_rllib.baselines.rule import Rule, affordable
from bippo_rllib.selection.budget_sampler import BUDGET_TOLERANCE
from bippo_rllib.selection.generator import new_generator


class Cyclic(Rule):
    """Selects clients in a random order, which is drawn again when every client has had a turn.

    After Cho, Sharma, Joshi, Xu, Kale, Zhang, "On the Convergence of Federated Averaging with Cyclic Client
    Participation" (ICML 2023), arXiv:2302.03109, with groups of the size that the budget allows: in every round the
    queue is walked through from the front, clients that fit the rest of the budget are picked, and the others stay
    where they are. If the last client in the queue is picked, the walk goes on in the new order. A client that joins is
    put behind the others; one that leaves, or that costs more than the whole budget of a round, stays where it is until
    it has had its turn, also when the others begin a new order. A round that can afford nobody changes nothing.

    So a round may leave budget unspent, if all clients that would still fit have had their turn.

    Args:
        seed: Seed of the generator of the draws.
    """

    def __init__(self, seed: int | Sequence[int] | None = None) -> None:
        self._rng = new_generator(seed)
        self._waiting: list[str] = []
        self._had_a_turn: list[str] = []

    def order(
        self, clients: Sequence[str], infos: Sequence[Mapping[str, Any]], costs: np.ndarray, budget: float
    ) -> Sequence[int]:
        """Picks the clients of a round, which have then had their turn."""
        index_of = {clients[i]: i for i in np.flatnonzero(affordable(costs, budget)).tolist()}
        known = {*self._waiting, *self._had_a_turn}
        self._waiting += self._shuffled([client for client in clients if client not in known])
        picked = self._walk(index_of, costs, budget, [])
        if index_of and index_of.keys().isdisjoint(self._waiting):  # all who could be picked have had their turn
            missed = dict.fromkeys(self._waiting)  # away, or too dear in this round: still first once they are back
            self._waiting = [*missed, *self._shuffled([client for client in clients if client not in missed])]
            self._had_a_turn = []
            picked = self._walk(index_of, costs, budget, picked)
        return picked

    def get_state(self) -> dict[str, Any]:
        """Returns the queue, the clients that have had a turn, and the generator's state."""
        return {
            "waiting": list(self._waiting),
            "had_a_turn": list(self._had_a_turn),
            "rng": self._rng.bit_generator.state,
        }

    def set_state(self, state: Mapping[str, Any]) -> None:
        """Restores a ``state`` that ``get_state`` returned."""
        waiting, had_a_turn = list(state["waiting"]), list(state["had_a_turn"])
        self._rng.bit_generator.state = state["rng"]  # checked by NumPy, so that nothing is half restored
        self._waiting, self._had_a_turn = waiting, had_a_turn

    def _walk(self, index_of: Mapping[str, int], costs: np.ndarray, budget: float, picked: Sequence[int]) -> list[int]:
        """Adds clients from the queue to ``picked``; the others stay in the queue."""
        picks, spent, waiting = list(picked), float(sum(costs[i] for i in picked)), []
        for client in self._waiting:
            index = index_of.get(client)
            if index is None or index in picks or spent + costs[index] > budget * (1.0 + BUDGET_TOLERANCE):
                waiting.append(client)
            else:
                picks.append(index)
                spent += float(costs[index])
                self._had_a_turn.append(client)
        self._waiting = waiting
        return picks

    def _shuffled(self, clients: Sequence[str]) -> list[str]:
        return [clients[i] for i in self._rng.permutation(len(clients)).tolist()]
