"""Fed-CBS: selects clients whose labels together have the mixture of all labels. NumPy only."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from bippo_rllib.selection.info_entry import entry, row_of_numbers
from bippo_rllib.selection.set_score import SetScore


class LabelBalance(SetScore):
    """Scores a candidate by how evenly the labels of the clients picked so far and itself are mixed.

    After Zhang, Li, Tang, Sun, Chen, Zhang, Chen, Chen, Li, "Fed-CBS: A Heterogeneity-Aware Client Sampling Mechanism
    for Federated Learning via Class-Imbalance Reduction" (ICML 2023), arXiv:2209.15245. With ``q_n`` the samples of
    client n and ``a_n`` the shares of its classes, its quadratic class-imbalance degree of a set M over B classes is

        QCID(M) = sum over classes b of (sum_n q_n a_(n,b) / sum_n q_n - 1 / B) ** 2

    and candidate i, beside the clients S picked so far, has the score ``-QCID(S + i)``.

    Deviations:

    * ``1 / B`` is replaced by the share of class b among all samples of the live clients, which is ``1 / B``
      where classes are balanced over all, as the publication takes it;
    * the publication draws with probabilities in proportion to powers of ``1 / QCID``, and adds a bonus for the first
      pick of clients that were picked seldom; here each pick is drawn in proportion to ``exp(weight * z)``, ``z`` being
      the score standardised over the candidates, by the sampler ``odds``;
    * a budget replaces the number of clients;
    * the publication's server has inner products of label counts under encryption; here it has the counts.

    Infos have ``label_counts``, a client's training samples of each class, ``[B]`` numbers of at least 0.
    """

    def observe(self, clients: Sequence[str], infos: Sequence[Mapping[str, Any]]) -> None:
        """Reads the label counts of the live clients.

        Raises:
            ValueError: If an info lacks them, or they are no counts of as many classes as the others'.
        """
        needs = "LabelBalance needs; with envs.FederatedRounds set with_label_counts"
        kind = "numbers of at least 0, one for each class"
        found: list[np.ndarray] = []
        for client, info in zip(clients, infos, strict=True):
            given = entry(client, info, "label_counts", needs)
            size = found[0].size if found else None
            found.append(row_of_numbers(client, "label_counts", given, size, kind, low=0.0))
        self._counts = np.stack(found)
        self._target = _mix(self._counts.sum(axis=0, keepdims=True))[0]

    def __call__(self, chosen: Sequence[int], candidates: np.ndarray) -> np.ndarray:
        """See ``SetScore``."""
        together = self._counts[list(chosen)].sum(axis=0) + self._counts[candidates]
        return -np.square(_mix(together) - self._target).sum(axis=1)


def _mix(counts: np.ndarray) -> np.ndarray:
    """Returns ``float64[K, B]``, shares of the classes; NaN for a set without samples."""
    totals = counts.sum(axis=1, keepdims=True)
    return np.divide(counts, totals, out=np.full(counts.shape, np.nan), where=totals > 0.0)
