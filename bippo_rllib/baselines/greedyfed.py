"""GreedyFed: every client once, then the clients with the highest Shapley values. NumPy only."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from bippo_rllib.baselines.bandit import RewardRecord
from bippo_rllib.baselines.rule import Rule, numbers
from bippo_rllib.selection.info_entry import entry


class GreedyFed(Rule):
    """Tries every client once, in a random order, and then always picks the highest mean Shapley values.

    After Singhal, Pandey, Popovski, "Greedy Shapley Client Selection for Communication-Efficient Federated Learning"
    (IEEE Networking Letters 2024), arXiv:2312.09108, in the variant that averages a client's values over the rounds
    it trained in. Ties are broken by the random order.

    Deviations:

    * the value of a coalition is the mean accuracy on the clients' test sets, as the environment rewards it, not the
      loss on validation data that the server holds;
    * values are rewards, which grow with the Shapley value but not in proportion to it;
    * values are exact up to three participants and else the mean over drawn orders, see ``env.shapley_pairs``,
      where the publication samples by a truncated Monte Carlo method;
    * a budget replaces the number of clients: clients that do not fit are skipped, in both phases;
    * a client whose training failed counts as tried, with a value of 0; one that joins later is tried as soon as it
      fits.

    Infos have a client's ``own_reward`` in the last step, None if it did not participate, and ``failed``: whether it
    participated, but its work was lost.

    Args:
        seed: Of the random order.
    """

    def __init__(self, *, seed: int | Sequence[int] | None = None) -> None:
        self._rng = np.random.default_rng(seed)
        self._record = RewardRecord()
        self._places: dict[str, float] = {}

    def observe(self, clients: Sequence[str], infos: Sequence[Mapping[str, Any]]) -> None:
        """Records the values of the clients that participated in the last round."""
        needs = "GreedyFed needs; with envs.FederatedRounds set reward='shapley'"
        rewards = numbers(clients, infos, "own_reward", needs, optional=True)
        for client, info, reward in zip(clients, infos, rewards.tolist(), strict=True):
            if entry(client, info, "failed", needs):
                self._record.add(client, 0.0)
            elif not np.isnan(reward):
                self._record.add(client, reward)

    def order(
        self, clients: Sequence[str], infos: Sequence[Mapping[str, Any]], costs: np.ndarray, budget: float
    ) -> Sequence[int]:
        """Orders clients without a value first, then by mean value."""
        for client in clients:
            if client not in self._places:
                self._places[client] = float(self._rng.random())
        return sorted(range(len(clients)), key=lambda i: self._key(clients[i]))

    def get_state(self) -> dict[str, Any]:
        """Returns values, the random order and the generator's state."""
        return {
            "record": self._record.get_state(),
            "places": dict(self._places),
            "rng": self._rng.bit_generator.state,
        }

    def set_state(self, state: Mapping[str, Any]) -> None:
        """Restores a ``state`` that ``get_state`` returned."""
        self._record.set_state(state["record"])
        self._places = dict(state["places"])
        self._rng.bit_generator.state = state["rng"]

    def _key(self, client: str) -> tuple[bool, float, float]:
        is_valued = client in self._record
        return is_valued, -self._record.mean(client) if is_valued else 0.0, self._places[client]
