"""Computes how representative each client is of all clients, from one reported number. NumPy only."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from bippo_rllib.selection.budget_sampler import log_odds

#: Reports after which a record counts half. The root mean square of n reports has a standard error of about
#: 1 / sqrt(2 n) of itself: a third at 5.
HALF_TRUST = 5

#: Suggestions count as at least this far from 0 and 1, so that none is certain and the prior can always speak.
_MARGIN = 1e-6

#: Largest logit that is turned back into a probability: beyond it ``1 - p`` runs out of digits in float64.
_MAX_LOGIT = 30.0

#: Largest logarithm of a ratio of distances that counts: 3 is a distance of a twentieth of the mean one.
_MAX_LOG_RATIO = 3.0


class Representativeness:
    """Running record of how closely each client's score follows the mean of all live clients.

    The accuracy of a client whose data is like the others' moves with the mean accuracy, whichever clients train; that
    of one with a single label swings between 0 and 1. Two numbers are kept for each client: the sum of its squared
    distances from the mean, and their number. Clients that leave keep their records.
    """

    def __init__(self) -> None:
        self._index: dict[str, int] = {}
        self._sums = np.zeros(0)
        self._counts = np.zeros(0, dtype=np.int64)

    def update(self, clients: Sequence[str], scores: np.ndarray, standardised: bool = True) -> np.ndarray:
        """Adds one report of each live client, and returns how representative the clients are.

        Args:
            clients: All live clients.
            scores: ``float64[len(clients)]`` reported numbers, finite, in any unit.
            standardised: As of ``representativeness``.

        Returns:
            Their ``representativeness``, ``float64[len(clients)]``.
        """
        index = self._indices(clients)
        np.add.at(self._sums, index, np.square(scores - scores.mean()))
        np.add.at(self._counts, index, 1)
        return representativeness(self._sums[index], self._counts[index], standardised)

    def get_state(self) -> dict[str, Any]:
        """Returns the records of all clients ever seen."""
        return {"clients": list(self._index), "sums": self._sums.copy(), "counts": self._counts.copy()}

    def set_state(self, state: Mapping[str, Any]) -> None:
        """Restores the state that ``get_state`` returned."""
        clients, sums, counts = state["clients"], state["sums"].copy(), state["counts"].copy()
        self._index = {client: i for i, client in enumerate(clients)}
        self._sums, self._counts = sums, counts

    def _indices(self, clients: Sequence[str]) -> np.ndarray:
        """Returns the indices of the clients' records; new clients get empty ones."""
        for client in clients:
            self._index.setdefault(client, len(self._index))
        num_new = len(self._index) - len(self._sums)
        if num_new:
            self._sums = np.append(self._sums, np.zeros(num_new))
            self._counts = np.append(self._counts, np.zeros(num_new, dtype=np.int64))
        return np.array([self._index[client] for client in clients], dtype=np.int64)


def representativeness(sums: np.ndarray, counts: np.ndarray, standardised: bool = True) -> np.ndarray:
    """Returns how much closer than the others each client stays to the mean.

    ``v_n = sqrt(sums_n / counts_n)`` is the root mean square of a client's distances from the mean. Standardised over
    the live clients, ``z_n = (mean(v) - v_n) / std(v)``, the population standard deviation; else ``z_n = log(mean(v) /
    v_n)``, at most 3 either way, which stays small where clients hardly differ.

    A short record is unreliable: it has the credibility ``c_n = counts_n / (counts_n + HALF_TRUST)``, relative to the
    longest record's (Bühlmann, "Experience Rating and Credibility", ASTIN Bulletin, 1967), as its weight in mean and
    deviation and as the factor of ``z_n``. A client that joins thus starts near 0 and leaves the others where they are;
    where all records are equally long nothing changes.

    Args:
        sums: ``float64[N]`` sum of each client's squared distances from the mean of the live clients.
        counts: ``int64[N]`` number of distances in each sum.
        standardised: Which of the two.

    Returns:
        ``float64[N]``, above 0 for clients more representative than the average; 0 without a record, and for all
        where the clients do not differ.
    """
    if not counts.any():
        return np.zeros(len(counts))
    credibility = counts / (counts + HALF_TRUST)
    credibility /= credibility.max()
    distances = np.sqrt(sums / np.maximum(counts, 1))
    mean = np.average(distances, weights=credibility)
    if not standardised:
        nothing = max(1e-12, math.exp(-_MAX_LOG_RATIO) * mean)
        ratios = np.log(max(mean, nothing) / np.maximum(distances, nothing))
        return np.clip(ratios, -_MAX_LOG_RATIO, _MAX_LOG_RATIO) * credibility
    spread = np.sqrt(np.average(np.square(distances - mean), weights=credibility))
    if spread <= max(1e-12, 1e-9 * mean):  # nothing but rounding
        return np.zeros(len(counts))
    return (mean - distances) / spread * credibility


@dataclass
class Prior:
    """Settings and record of the representativeness prior.

    Attributes:
        key: Info key of the reported number.
        weight: Weight of ``z``.
        gain: Factor of the policies' logits.
        only_lowers: Whether policies can only lower a client's chances.
        standardised: Whether ``z`` is standardised over the live clients, or else a log-ratio.
        record: Record of all reports.
    """

    key: str = "accuracy"
    weight: float = 2.0
    gain: float = 1.0
    only_lowers: bool = False
    standardised: bool = True
    record: Representativeness = field(default_factory=Representativeness)

    def scores(self, suggestions: np.ndarray, clients: Sequence[str], reports: np.ndarray) -> np.ndarray:
        """Records the reports of all live clients (``float64[N]``) and adjusts their suggestions, ``[N]``."""
        z = self.record.update(clients, reports, self.standardised)
        return with_prior(suggestions, z, weight=self.weight, gain=self.gain, only_lowers=self.only_lowers)


def with_prior(
    suggestions: np.ndarray, z: np.ndarray, *, weight: float, gain: float, only_lowers: bool = False
) -> np.ndarray:
    """Returns ``sigmoid(gain * logit(suggestions) + weight * z)``, ``float64[N]``; ``-inf`` stays.

    With ``only_lowers`` suggestions above one half count as one half: policies reject clients, and the prior chooses
    among the others.
    """
    suggestions = np.asarray(suggestions, dtype=np.float64)
    learned = log_odds(np.clip(suggestions, _MARGIN, 1.0 - _MARGIN))
    logits = gain * (np.minimum(learned, 0.0) if only_lowers else learned) + weight * z
    adjusted = 1.0 / (1.0 + np.exp(-np.clip(logits, -_MAX_LOGIT, _MAX_LOGIT)))
    return np.where(suggestions == -np.inf, -np.inf, adjusted)
