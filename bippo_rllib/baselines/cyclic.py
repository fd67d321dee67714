"""Cyclic participation: everybody has a turn before anybody has a second one. NumPy only."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from bippo_rllib.baselines.rule import Rule, payable
from bippo_rllib.selection.budget_sampler import BUDGET_TOLERANCE
from bippo_rllib.selection.generator import new_generator


class Cyclic(Rule):
    """Walks through the clients in a random order, which is drawn anew when everybody has had a turn.

    After Cho, Sharma, Joshi, Xu, Kale, Zhang, "On the Convergence of Federated Averaging with Cyclic Client
    Participation" (ICML 2023), arXiv:2302.03109, with groups of the size that the budget pays: in every round those
    that wait are walked through from the front, who fits what is left of the budget is picked, and who does not keeps
    its place. If the last one that waits is picked, the walk goes on in the new order. A client that joins waits behind
    the others; one that leaves keeps its place. Clients whose cost exceeds the whole budget are not waited for.

    So a round may leave budget unspent: that of the clients that would still fit all have had their turn.

    Args:
        seed: Of the draws' own generator.
    """

    def __init__(self, seed: int | Sequence[int] | None = None) -> None:
        self._rng = new_generator(seed)
        self._waiting: list[str] = []
        self._had_a_turn: list[str] = []

    def order(
        self, clients: Sequence[str], infos: Sequence[Mapping[str, Any]], costs: np.ndarray, budget: float
    ) -> Sequence[int]:
        """Picks the clients of a round, who thereby have had their turn."""
        places = {clients[i]: i for i in np.flatnonzero(payable(costs, budget)).tolist()}
        known = {*self._waiting, *self._had_a_turn}
        self._waiting += self._shuffled([client for client in clients if client not in known])
        picked = self._walk(places, costs, budget, [])
        if places.keys().isdisjoint(self._waiting):
            self._waiting, self._had_a_turn = self._shuffled(clients), []
            picked = self._walk(places, costs, budget, picked)
        return picked

    def get_state(self) -> dict[str, Any]:
        """Returns who waits, who has had a turn, and the generator's state."""
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

    def _walk(self, places: Mapping[str, int], costs: np.ndarray, budget: float, picked: Sequence[int]) -> list[int]:
        """``picked`` and who is picked beside them; the others go on waiting."""
        picks, spent, waiting = list(picked), float(sum(costs[i] for i in picked)), []
        for client in self._waiting:
            place = places.get(client)
            if place is None or place in picks or spent + costs[place] > budget * (1.0 + BUDGET_TOLERANCE):
                waiting.append(client)
            else:
                picks.append(place)
                spent += float(costs[place])
                self._had_a_turn.append(client)
        self._waiting = waiting
        return picks

    def _shuffled(self, clients: Sequence[str]) -> list[str]:
        return [clients[i] for i in self._rng.permutation(len(clients)).tolist()]
