"""What a meter read in a round, and one warning for each way in which it fails."""

from __future__ import annotations

import logging
from collections.abc import Sequence

from envs.training.aggregation import WeightedSum

logger = logging.getLogger(__name__)


def complete_readings_j(trained: WeightedSum) -> list[tuple[int, float]]:
    """Returns client and joules of each reading of a training that did not fail.

    One that broke off says nothing about what a complete one costs.
    """
    failed = trained.failed_clients
    return [(client, joules) for client, joules in trained.readings_j if client not in failed]


def measured_j(trained: WeightedSum) -> float | None:
    """Returns the joules that a meter read while all of them trained.

    It is None without a meter, or if a reading is missing.
    """
    if trained.unread or not trained.readings_j:
        return None
    return sum(joules for _, joules in trained.readings_j)


class MeterWarnings:
    """Warns once of missing readings, and once of a meter that counts nothing.

    Args:
        meter: What ``energy_meter`` is.
        names: Client names by client id.
    """

    def __init__(self, meter: str, names: Sequence[str]) -> None:
        self._meter, self._names = meter, names
        self._said: set[str] = set()
        self._new: list[str] = []

    def check(self, trained: WeightedSum, round_index: int) -> None:
        """Looks at what was read in a round."""
        still = [client for client, joules in complete_readings_j(trained) if joules == 0.0]
        unread = [client for client, _ in trained.unread]
        if unread:
            before = "the formula's" if round_index == 0 else "what they reported before"
            why = f"could not be read ({trained.unread[0][1]})"
            self._warn("unread", f"{why} while {self._trained(unread, round_index)}; their costs stay {before}")
        if still:
            cheap = "they report the upload's energy alone, and a budget_share is one of that"
            fix = "choose a meter that counts faster, give clients more to train, or use energy_meter='formula'"
            self._warn("still", f"counted nothing while {self._trained(still, round_index)}: {cheap}; {fix}")

    def take(self) -> tuple[str, ...]:
        """Returns the warnings since the last call."""
        new, self._new = tuple(self._new), []
        return new

    def _trained(self, clients: Sequence[int], round_index: int) -> str:
        others = f" and {len(clients) - 1} more" if len(clients) > 1 else ""
        return f"{self._names[clients[0]]}{others} trained in round {round_index}"

    def _warn(self, kind: str, what: str) -> None:
        if kind not in self._said:
            self._said.add(kind)
            self._new.append(f"energy_meter {self._meter} {what} (said once)")
            logger.warning("%s", self._new[-1])
