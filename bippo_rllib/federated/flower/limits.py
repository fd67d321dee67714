"""What limits a round: its budget, the clients' batteries, and which clients are eligible."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from bippo_rllib.federated.reports import ClientReport, checked_budget, checked_number
from bippo_rllib.policies.agents import policy_of

logger = logging.getLogger(__name__)

#: Joules of a round, or a function of the round, which is counted from 1.
Budget = float | Callable[[int], float]

#: Client, what its node sent with the latest evaluation, round -> whether it may be selected.
Eligible = Callable[[Any, Mapping[str, Any], int], bool]

Reports = Mapping[Any, ClientReport]


@dataclass
class Limits:
    """The limits of a run; the arguments of ``BudgetedStrategy``, but for the joules that are left by now."""

    budget_j: Budget
    batteries_j: dict[Any, float]
    eligible: Eligible | None

    def candidates(
        self, reports: Reports, metrics: Mapping[Any, Mapping[str, Any]], server_round: int
    ) -> dict[Any, ClientReport]:
        """Returns the reports, marked where a client may not be selected in the round."""
        left_j = {policy_of(client): joules for client, joules in self.batteries_j.items()}
        return {
            client: replace(
                report,
                candidate=report.cost_j <= left_j.get(policy_of(client), math.inf)
                and self._is_eligible(client, metrics.get(client, {}), server_round),
            )
            for client, report in reports.items()
        }

    def discharge(self, costs_j: Mapping[Any, float]) -> None:
        """Takes what each selected client costs off its battery."""
        costs = {policy_of(client): cost_j for client, cost_j in costs_j.items()}
        for client in self.batteries_j:
            self.batteries_j[client] -= costs.get(policy_of(client), 0.0)

    def _is_eligible(self, client: Any, metrics: Mapping[str, Any], server_round: int) -> bool:
        try:
            return self.eligible is None or bool(self.eligible(client, metrics, server_round))
        except Exception as error:  # of a user's function, whichever it is
            reason = f"eligible fails for {client!r}: {type(error).__name__}: {error}"
            logger.warning("not selected in round %d: %s", server_round, reason)
            return False


def budget_of(budget_j: Budget, server_round: int) -> float:
    """Returns the joules that a round may cost.

    Raises:
        ValueError: If they are no number of at least 0, or the function raises an error; in one line.
    """
    if not callable(budget_j):
        return checked_budget(budget_j)
    try:
        return checked_budget(budget_j(server_round))
    except Exception as error:  # of a user's function, whichever it is
        kind = "" if isinstance(error, ValueError) else f"{type(error).__name__}: "
        raise ValueError(f"budget_j({server_round}) cannot be used: {kind}{error}") from error


def checked_batteries(batteries_j: Mapping[Any, float]) -> dict[Any, float]:
    """Returns a copy of the joules that are left in each client's battery.

    Raises:
        ValueError: For a value that is not a finite number of at least 0; the message names the client.
    """
    return {
        client: checked_number(client, left_j, "battery_j", (0.0, math.inf)) for client, left_j in batteries_j.items()
    }
