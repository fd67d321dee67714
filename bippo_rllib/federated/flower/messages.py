"""What the strategy warns of, in one line each."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from bippo_rllib.federated.flower.node_reports import CLIENT, NAMED
from bippo_rllib.federated.reports import ClientReport
from bippo_rllib.policies.agents import policy_of


def no_client_trains(reports: Mapping[Any, ClientReport], budget_j: float) -> str | None:
    """Returns why no client can train; None if one could, but the selector wants none."""
    if not reports:
        return "no client is available"
    costs_j = {client: report.cost_j for client, report in reports.items() if report.candidate}
    if not costs_j:
        return f"none of {len(reports)} clients is eligible and has enough left in its battery"
    cheapest = min(costs_j, key=lambda client: (costs_j[client], str(client)))
    if costs_j[cheapest] <= budget_j:
        return None
    cost_j = costs_j[cheapest]
    return f"the budget of {budget_j:g} J is below the cheapest client's cost, {cost_j:g} J of {cheapest!r}"


def who_trains(selected: Sequence[Any], available: int, cost_j: float) -> str:
    """Returns who is sent the training of a round, of so many clients, and the joules that it costs."""
    named = f": {_first([str(client) for client in selected])} ({cost_j:.4g} J)" if selected else ""
    return f"selected {len(selected)} of {available} clients{named}"


def unnamed(node_ids: Mapping[Any, int], policy_ids: Collection[str]) -> str | None:
    """Returns that clients which are known by their node's id start with fresh policies; None if no such one is new.

    Args:
        node_ids: The node of each client.
        policy_ids: Policies that there are.
    """
    known = set(policy_ids)
    new = sorted(node for client, node in node_ids.items() if client == node and policy_of(client) not in known)
    if not new:
        return None
    named = _first([str(node) for node in new])
    return (
        f"no {CLIENT} from nodes {named}: each is a client by its node's id, which changes when it restarts, and "
        f"starts with a fresh policy; send {CLIENT}, by which clients keep theirs"
    )


def without_report(batteries_j: Collection[Any], clients: Collection[Any]) -> str | None:
    """Returns which batteries are of no client that has reported; None if all are."""
    known = {policy_of(client) for client in clients}
    unknown = [client for client in batteries_j if policy_of(client) not in known]
    if not unknown:
        return None
    named = _first([repr(client) for client in unknown])
    return f"batteries_j has {named}, which has not reported; a client without an entry has no limit"


def _first(names: Sequence[str]) -> str:
    return ", ".join(names[:NAMED]) + (f" and {len(names) - NAMED} more" if len(names) > NAMED else "")
