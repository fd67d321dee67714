"""HiCS-FL: clusters of clients by what their updates say about their labels. NumPy and SciPy only."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from scipy.cluster.hierarchy import fcluster, linkage
from scipy.spatial.distance import pdist

from bippo_rllib.baselines.rule import Rule, numbers
from bippo_rllib.selection.budget_sampler import BUDGET_TOLERANCE
from bippo_rllib.selection.info_entry import entry, row_of_numbers

#: Of a difference of entropies, in nats, beside an angle, in radians.
ENTROPY_WEIGHT = 10.0

_NEEDS = "HiCS needs; with envs.FederatedRounds set with_output_bias"


class HiCS(Rule):
    """Draws clusters of clients by how mixed their labels seem to be, and clients from them.

    After Chen and Vikalo, "Heterogeneity-Guided Client Sampling: Towards Fast and Efficient Non-IID Federated Learning"
    (NeurIPS 2024), arXiv:2310.00198, and the published code (github.com/CityChan/HiCS-FL). Followed:

    * with ``u_n`` what client n's last training changed of the output layer's bias, its estimated label entropy is
      ``H_n``, the entropy of ``softmax(u_n / temperature)``: labels that a client has are pushed up, others down;
    * two clients are apart by the angle between their ``u``, plus ``ENTROPY_WEIGHT * |H_n - H_m|``; clients whose rows
      in the matrix of these are alike are clustered by Ward's method;
    * a cluster is drawn in proportion to ``exp(gamma * (1 - t / rounds) * mean H)`` in round t, so that balanced data
      comes first and all clusters are equal in the end; then a client of it, in proportion to data size.

    Deviations:

    * all clients are ordered so, and a budget replaces their number: clients that do not fit are skipped;
    * there are as many clusters as the cheapest clients that fit the budget, at least 2, where the published
      experiments have as many as clients in a round;
    * angles are those of the bias's update alone, not of the output layer's weights too;
    * round 0, in which all train, replaces the first turn of all clients; a client without an update, such as one that
      joined, comes first.

    Infos have a client's ``num_samples`` and ``output_bias_update``: ``u_n``, ``[num_classes]`` numbers in the round
    after it trained, else None.

    Args:
        rounds: Rounds in all, at least 1.
        temperature: Of the softmax, above 0. Bias updates grow with the learning rate and the number of local steps;
            0.01 suits updates of some hundredths.
        gamma: Of the mean entropies, at first.
        seed: Of the draws.

    Raises:
        ValueError: If the temperature is not above 0, or there are no rounds.
    """

    def __init__(
        self,
        rounds: int,
        *,
        temperature: float = 0.01,
        gamma: float = 4.0,
        seed: int | Sequence[int] | None = None,
    ) -> None:
        if not temperature > 0.0:
            raise ValueError(f"temperature is {temperature}; it must be above 0")
        if rounds < 1:
            raise ValueError(f"rounds is {rounds}; it must be at least 1")
        self._rounds, self._temperature, self._gamma = rounds, temperature, gamma
        self._rng = np.random.default_rng(seed)
        self._updates: dict[str, np.ndarray] = {}
        self._round = 0

    def observe(self, clients: Sequence[str], infos: Sequence[Mapping[str, Any]]) -> None:
        """Keeps the updates of the clients that trained in the last round.

        Raises:
            ValueError: If an info lacks an update, or has one that is no finite numbers, as many as the others.
        """
        updates = dict(self._updates)
        for client, info in zip(clients, infos, strict=True):
            given = entry(client, info, "output_bias_update", _NEEDS)
            if given is not None:
                size = next(map(len, updates.values()), None)
                updates[client] = row_of_numbers(client, "output_bias_update", given, size)
        self._updates = updates

    def order(
        self, clients: Sequence[str], infos: Sequence[Mapping[str, Any]], costs: np.ndarray, budget: float
    ) -> Sequence[int]:
        """Orders clients without an update first, the others as clusters are drawn."""
        sizes = numbers(clients, infos, "num_samples", _NEEDS)
        weight = self._gamma * max(0.0, 1.0 - self._round / self._rounds)
        self._round += 1
        known = np.array([i for i, client in enumerate(clients) if client in self._updates], dtype=np.int64)
        unknown = np.setdiff1d(np.arange(len(clients)), known)
        order = self._rng.permutation(unknown).tolist()
        if known.size:
            places = np.count_nonzero(np.cumsum(np.sort(costs)) <= budget * (1.0 + BUDGET_TOLERANCE))
            updates = np.stack([self._updates[clients[i]] for i in known])
            entropies = label_entropies(updates, self._temperature)
            clusters = clustered(distances(updates, entropies), max(2, int(places)))
            order += known[self._drawn(clusters, weight * entropies, sizes[known])].tolist()
        return order

    def get_state(self) -> dict[str, Any]:
        """Returns all updates, the round, and the generator's state."""
        updates = {client: update.copy() for client, update in self._updates.items()}
        return {"updates": updates, "round": self._round, "rng": self._rng.bit_generator.state}

    def set_state(self, state: Mapping[str, Any]) -> None:
        """Restores a ``state`` that ``get_state`` returned."""
        self._updates = {client: np.array(update) for client, update in state["updates"].items()}
        self._round = state["round"]
        self._rng.bit_generator.state = state["rng"]

    def _drawn(self, clusters: np.ndarray, weighted_entropies: np.ndarray, sizes: np.ndarray) -> list[int]:
        """Draws the order of all clients: a cluster with clients left, then one of them."""
        left = np.ones(len(clusters), dtype=bool)
        means = {int(c): float(weighted_entropies[clusters == c].mean()) for c in np.unique(clusters)}
        drawn = []
        while left.any():
            there = sorted({int(c) for c in clusters[left]})
            odds = np.exp(np.array([means[c] for c in there]) - max(means[c] for c in there))
            cluster = there[int(self._rng.choice(len(there), p=odds / odds.sum()))]
            members = np.flatnonzero(left & (clusters == cluster))
            shares = np.maximum(sizes[members], 1e-9)
            client = int(self._rng.choice(members, p=shares / shares.sum()))
            left[client] = False
            drawn.append(client)
        return drawn


def label_entropies(updates: np.ndarray, temperature: float) -> np.ndarray:
    """Returns the entropy of ``softmax(update / temperature)`` for each of ``float64[N, B]``, in nats."""
    logits = updates / temperature
    logits -= logits.max(axis=1, keepdims=True)
    weights = np.exp(logits)
    totals = weights.sum(axis=1)
    return np.log(totals) - (weights * logits).sum(axis=1) / totals


def distances(updates: np.ndarray, entropies: np.ndarray) -> np.ndarray:
    """Returns ``float64[N, N]``: angle plus weighted difference of entropies; an update of length 0 is at no angle."""
    lengths = np.linalg.norm(updates, axis=1, keepdims=True)
    units = np.divide(updates, lengths, out=np.zeros_like(updates), where=lengths > 0.0)
    angles = np.where((lengths > 0.0) & (lengths.T > 0.0), np.arccos(np.clip(units @ units.T, -1.0, 1.0)), 0.0)
    np.fill_diagonal(angles, 0.0)
    return angles + ENTROPY_WEIGHT * np.abs(entropies[:, None] - entropies)


def clustered(rows: np.ndarray, number: int) -> np.ndarray:
    """Returns ``int64[N]``, which of at most ``number`` clusters each row is in, by Ward's method."""
    if len(rows) == 1:
        return np.ones(1, dtype=np.int64)
    return np.asarray(fcluster(linkage(pdist(rows), "ward"), number, "maxclust"), dtype=np.int64)
