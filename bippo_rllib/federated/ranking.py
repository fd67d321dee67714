"""Rankings that take the place of the policies' suggestions, from clients' reports. NumPy only."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from bippo_rllib.baselines.cyclic import Cyclic
from bippo_rllib.baselines.oort import Oort
from bippo_rllib.baselines.rule import scores_in_order
from bippo_rllib.federated.observed import Observed
from bippo_rllib.federated.reports import LOSS, NUM_SAMPLES, numbers


@dataclass
class ReportRanking:
    """Ranks clients by a number that they report, as ``poc`` and ``poca`` do.

    Attributes:
        key: Entry of the reports.
        highest_first: Whether the highest comes first.
    """

    key: str
    highest_first: bool = True

    def scores(self, observed: Observed) -> np.ndarray:
        """Returns ``float64[N]``, the higher the earlier a client is picked."""
        values = numbers(observed.reports, observed.clients, self.key)
        return values if self.highest_first else -values


@dataclass
class CyclicRanking:
    """Gives every client a turn before any gets a second one, see ``Cyclic``."""

    rule: Cyclic = field(default_factory=Cyclic)

    def scores(self, observed: Observed) -> np.ndarray:
        """Returns ``float64[N]``, ``-inf`` for clients that have no turn in the round; moves on by one round."""
        index = np.flatnonzero(observed.candidates)
        ids = [observed.ids[i] for i in index]
        order = self.rule.order(ids, [{}] * len(ids), observed.costs_j[index], observed.budget_j)
        return scores_in_order(index[list(order)].tolist(), len(observed.ids))


@dataclass
class OortRanking:
    """Ranks clients as Oort does, see ``Oort``. Clients that trained in the last round report a ``loss``."""

    rule: Oort = field(default_factory=Oort)

    def scores(self, observed: Observed) -> np.ndarray:
        """Returns ``float64[N]``, the higher the earlier a client is picked; moves on by one round."""
        sizes = numbers(observed.reports, observed.clients, "num_samples", NUM_SAMPLES)
        tried = np.flatnonzero(observed.trained).tolist() if self.rule.has_begun else []
        utilities = sizes[tried] * numbers(observed.reports, [observed.clients[i] for i in tried], "loss", LOSS)
        if (bad := np.flatnonzero(~np.isfinite(utilities))).size:
            raise ValueError(f"{observed.clients[tried[bad[0]]]!r} has a loss or num_samples too large for a utility")
        self.rule.feedback(dict(zip([observed.ids[i] for i in tried], utilities.tolist(), strict=True)))
        index = np.flatnonzero(observed.candidates)
        if not index.size:
            return np.full(len(observed.ids), -np.inf)
        order = self.rule.order(
            [observed.ids[i] for i in index], sizes[index], observed.costs_j[index], observed.budget_j
        )
        return scores_in_order(index[order].tolist(), len(observed.ids))


Ranking = ReportRanking | CyclicRanking | OortRanking
