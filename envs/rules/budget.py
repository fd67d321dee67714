"""The energy budget of a round: its size, and which clients fit into it. Pure functions."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from envs.checks import Shortage

#: Rounding slack of every budget check: a selection fits if its joules are at most ``budget * (1 + 1e-9)``.
BUDGET_TOLERANCE = 1e-9


def round_budget_j(
    costs_j: np.ndarray,
    share: float,
    budget_j: float | None,
    names: Sequence[str],
    probing_j: float = 0.0,
    credit_j: float = 0.0,
    selecting_j: float = 0.0,
    learning_j: float = 0.0,
) -> float:
    """Returns the budget of a round in joules.

    Args:
        costs_j: ``[N]`` cost of one round of each client at the start.
        share: Budget as a share of the sum of ``costs_j``, used if ``budget_j`` is None.
        budget_j: Budget in joules.
        names: ``[N]`` client names for the message.
        probing_j: Joules that probing all of them takes out of the budget.
        credit_j: Joules that each of them costs beside ``costs_j``, for its own reward.
        selecting_j: Joules that selecting among all of them takes out of the budget.
        learning_j: Joules that each of them costs beside, for what the selector learns from it.

    Raises:
        ValueError: If the budget does not suffice for probing and selecting, or is positive but too small for a client.
    """
    budget = share * float(np.sum(costs_j)) if budget_j is None else float(budget_j)
    cheapest = int(np.argmin(costs_j))
    cheapest_j = float(costs_j[cheapest]) + credit_j + learning_j
    overhead_j = probing_j + selecting_j
    if not fits(overhead_j, budget):
        work = _nonzero_names(("probing", probing_j), ("selecting among", selecting_j))
        lower = _nonzero_names(("probing_epochs", probing_j), ("joules_per_mac", selecting_j))
        raise Shortage(
            f"{work} all {len(names)} clients takes {overhead_j:.6g} J a round, the budget is {budget:.6g} J; "
            f"lower {lower}, or raise budget_j or budget_share"
        )
    if budget > 0.0 and not fits(cheapest_j, split_budget(budget, overhead_j)[1]):
        purposes = _nonzero_names(("probing", probing_j), ("selecting", selecting_j))
        overhead = f", less {overhead_j:.6g} J for {purposes}," if overhead_j else ""
        extra = f", {credit_j:.6g} J of it for its own reward (see credit_clients)" if credit_j else ""
        extra += f", {learning_j:.6g} J of it for learning (see joules_per_mac)" if learning_j else ""
        raise Shortage(
            f"the budget of {budget:.6g} J a round{overhead} is below the cheapest client: {names[cheapest]} needs "
            f"{cheapest_j:.6g} J{extra}; raise budget_j or budget_share (with budget_j=0 no client ever trains)"
        )
    return budget


def _nonzero_names(*parts: tuple[str, float]) -> str:
    """Joins the names of the parts that take any joules."""
    return " and ".join(name for name, joules in parts if joules)


def split_budget(budget_j: float, overhead_j: float) -> tuple[float, float]:
    """Returns the joules that a round spends on probing and selecting, and those left for training.

    All or nothing: if probing all live clients and selecting among them would exceed the budget, no client is probed
    and none trains, because a selector cannot rank without the probed values; both are 0 then.
    """
    if not fits(overhead_j, budget_j):
        return 0.0, 0.0
    return overhead_j, max(0.0, budget_j - overhead_j)


def fits(energy_j: float, budget_j: float) -> bool:
    """Returns whether ``energy_j`` is within the budget, up to ``BUDGET_TOLERANCE``."""
    return energy_j <= budget_j * (1.0 + BUDGET_TOLERANCE)


def admit_within_budget(
    clients: Sequence[int], costs_j: np.ndarray, budget_j: float, names: Sequence[str], on_overrun: str
) -> tuple[list[int], list[int], float]:
    """Returns which of ``clients`` may train.

    Args:
        clients: Client ids that were selected, in the order in which they are admitted.
        costs_j: Joules of a round, by client id.
        budget_j: Joules that this round may spend on training.
        names: Client names, by client id.
        on_overrun: ``raise`` or ``drop``.

    Returns:
        The clients that train, those turned down, and the joules of the former, summed in order.

    Raises:
        ValueError: With ``raise``, if ``clients`` together exceed the budget.
    """
    selected: list[int] = []
    dropped: list[int] = []
    energy_j = 0.0
    for client in clients:
        cost_j = float(costs_j[client])
        if fits(energy_j + cost_j, budget_j):
            selected.append(client)
            energy_j += cost_j
        else:
            dropped.append(client)
    if dropped and on_overrun == "raise":
        selected_j = sum(float(costs_j[client]) for client in clients)
        raise ValueError(
            f"the selection costs {selected_j:.6g} J, the budget of the round is {budget_j:.6g} J: "
            f"{', '.join(f'{names[c]} ({costs_j[c]:.6g} J)' for c in clients)}; select fewer clients, "
            f"or set on_overrun='drop'"
        )
    return selected, dropped, energy_j
