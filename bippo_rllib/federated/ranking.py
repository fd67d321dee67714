"""Rankings that take the place of the policies' suggestions, from clients' reports. NumPy only."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from bippo_rllib.baselines.cyclic import Cyclic
from bippo_rllib.baselines.oort import Oort
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

    @property
    def name(self) -> str:
        """What it is, for messages and to tell whether a saved run has the same."""
        return type(self).__name__

    @property
    def needs_loss(self) -> bool:
        """Whether clients have to report a ``loss``."""
        return self.key == "loss"

    def scores(self, observed: Observed) -> np.ndarray:
        """Returns ``float64[N]``, the higher the earlier a client is picked."""
        values = numbers(observed.reports, observed.clients, self.key)
        return values if self.highest_first else -values


@dataclass
class RuleRanking:
    """Ranks clients in the order of a rule, ``Cyclic`` or ``Oort``.

    With ``Oort`` clients that trained in the last round report a ``loss``.
    """

    rule: Cyclic | Oort

    @property
    def name(self) -> str:
        """Name of the rule."""
        return type(self.rule).__name__

    @property
    def needs_loss(self) -> bool:
        """Whether clients that trained have to report a ``loss``."""
        return isinstance(self.rule, Oort)

    def scores(self, observed: Observed) -> np.ndarray:
        """Returns ``float64[N]``, ``-inf`` for clients that are not ordered; moves on by one round."""
        infos = _infos_for(self.rule, observed) if isinstance(self.rule, Oort) else [{}] * len(observed.ids)
        return self.rule.scores(observed.ids, infos, observed.costs_j, observed.budget_j, observed.candidates)


Ranking = ReportRanking | RuleRanking


def _infos_for(oort: Oort, observed: Observed) -> list[dict[str, float]]:
    """Returns what ``Oort`` reads of the N clients, by the keys of the environment's infos."""
    trained = observed.trained & oort.has_begun
    sizes, losses = numbers(observed.reports, observed.clients, "num_samples", NUM_SAMPLES), np.zeros(len(trained))
    losses[trained] = numbers(observed.reports, [observed.clients[i] for i in np.flatnonzero(trained)], "loss", LOSS)
    columns = zip(sizes.tolist(), losses.tolist(), trained.tolist(), strict=True)
    return [{"num_samples": size, "loss": loss, "granted_j": float(took_part)} for size, loss, took_part in columns]
