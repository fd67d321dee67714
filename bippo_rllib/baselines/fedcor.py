"""FedCor: selects clients whose losses are most informative about those of all. NumPy only."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from bippo_rllib.baselines.loss_process import LossProcess
from bippo_rllib.baselines.rule import Rule, numbers
from bippo_rllib.selection.budget_sampler import BUDGET_TOLERANCE

WARM_UP = 15  #: first rounds, with random clients
INTERVAL = 10  #: rounds from one with random clients to the next, after the first ones
HISTORY = 10  #: rounds with random clients whose changes of loss are kept
DISCOUNT = 0.9  #: factor of a client's gain for each time it was picked since the last random round

_NEEDS = "FedCor needs; with envs.FederatedRounds set with_loss"


class FedCor(Rule):
    """Picks clients one by one, by how much observing their losses reduces the uncertainty about all losses.

    After Tang, Ning, Wang, Sun, Wang, Li, Chen, "FedCor: Correlation-Based Active Client Selection Strategy for
    Heterogeneous Federated Learning" (CVPR 2022), arXiv:2103.13822, and the published code (Yoruko-Tang/FedCor).
    Followed:

    * changes of the clients' losses in a round are a Gaussian process, see ``LossProcess``, whose covariance is fitted
      to rounds with random clients: the first ``WARM_UP``, then every ``INTERVAL``-th;
    * in other rounds the next client is the k of highest ``discount_k * sum_i p_i S_ik / sqrt(S_kk)``, S being the
      covariance given the losses of those already picked, and p_i shares of data size;
    * a client's discount falls by ``DISCOUNT`` whenever it is picked and is 1 again after the next random round.

    Deviations:

    * a budget replaces the number of clients: the next is the best that fits the rest of the budget;
    * a random round is part of the run and its model is kept, while the publication trains random clients beside
      the run, whose joules would have to be spent too;
    * changes of the last ``HISTORY`` random rounds count equally.

    Infos have a client's ``num_samples`` and mean ``loss`` on its training samples, of all clients in every round.

    Args:
        seed: Of the draws and the first places.
    """

    def __init__(self, *, seed: int | Sequence[int] | None = None) -> None:
        self._rng = np.random.default_rng(seed)
        self._process = LossProcess(seed)
        self._losses: dict[str, float] = {}
        self._discounts: dict[str, float] = {}
        self._history: list[dict[str, float]] = []
        self._round = 0

    def observe(self, clients: Sequence[str], infos: Sequence[Mapping[str, Any]]) -> None:
        """Keeps the losses, and after a random round learns from how they changed."""
        losses = dict(zip(clients, numbers(clients, infos, "loss", _NEEDS).tolist(), strict=True))
        if self._round and is_random(self._round - 1):
            self._learn({c: losses[c] - self._losses[c] for c in clients if c in self._losses})
        self._losses = losses

    def order(
        self, clients: Sequence[str], infos: Sequence[Mapping[str, Any]], costs: np.ndarray, budget: float
    ) -> Sequence[int]:
        """Orders the clients at random in random rounds, else by gain."""
        self._round += 1
        if is_random(self._round - 1):
            self._discounts = {}
            return self._rng.permutation(len(clients)).tolist()
        picks = self._picks(clients, numbers(clients, infos, "num_samples", _NEEDS), costs, budget)
        for i in picks:
            self._discounts[clients[i]] = self._discounts.get(clients[i], 1.0) * DISCOUNT
        return picks

    def get_state(self) -> dict[str, Any]:
        """Returns what was learned, losses and discounts, the round, and the generator's state."""
        return {
            "process": self._process.get_state(),
            "losses": dict(self._losses),
            "discounts": dict(self._discounts),
            "history": [dict(record) for record in self._history],
            "round": self._round,
            "rng": self._rng.bit_generator.state,
        }

    def set_state(self, state: Mapping[str, Any]) -> None:
        """Restores a ``state`` that ``get_state`` returned."""
        self._process.set_state(state["process"])
        self._losses, self._discounts = dict(state["losses"]), dict(state["discounts"])
        self._history, self._round = [dict(record) for record in state["history"]], state["round"]
        self._rng.bit_generator.state = state["rng"]

    def _learn(self, changes: Mapping[str, float]) -> None:
        if any(changes.values()):  # else no client trained
            self._history = [*self._history, dict(changes)][-HISTORY:]
            self._process.fit(self._history)

    def _picks(self, clients: Sequence[str], sizes: np.ndarray, costs: np.ndarray, budget: float) -> list[int]:
        covariance, shares = self._process.covariance(clients), sizes / sizes.sum()
        discounts = np.array([self._discounts.get(client, 1.0) for client in clients])
        left, spent, picks = np.isfinite(costs), 0.0, []
        while (fits := np.flatnonzero(left & (spent + costs <= budget * (1.0 + BUDGET_TOLERANCE)))).size:
            gains = discounts[fits] * (shares @ covariance[:, fits]) / np.sqrt(np.diag(covariance)[fits])
            pick = int(fits[np.argmax(gains)])
            covariance = observed(covariance, pick)
            left[pick] = False
            spent += float(costs[pick])
            picks.append(pick)
        return picks


def is_random(round_index: int) -> bool:
    """Whether the clients of a round, counted from 0, are random ones, to learn from."""
    return round_index < WARM_UP or (round_index - WARM_UP) % INTERVAL == INTERVAL - 1


def observed(covariance: np.ndarray, index: int) -> np.ndarray:
    """Returns the covariance ``float64[N, N]`` of all, given the value of one."""
    return covariance - np.outer(covariance[:, index], covariance[index]) / covariance[index, index]
