"""Observes the clients that are available in a round: reads their reports and changes nothing."""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np

from bippo_rllib.federated.environment import shared
from bippo_rllib.federated.last_round import LastRound
from bippo_rllib.federated.observed import Observed
from bippo_rllib.federated.reports import (
    ACCURACY,
    COST_J,
    NUM_SAMPLES,
    Reports,
    check_mapping,
    check_name,
    checked_budget,
    checked_vector,
    entries,
    flags,
    numbers,
)
from bippo_rllib.federated.selector_parts import SelectorParts
from bippo_rllib.policies.agents import policy_of


def observe(parts: SelectorParts, reports: Reports, budget_j: float) -> Observed:
    """Reads what a round is selected by.

    Accuracies and numbers of samples have the ranges of FL only where observations are made of them or a
    reward is known that may be computed of them: in another environment, numbers of these names may be anything.

    Raises:
        ValueError: For a number that is missing or out of range; the message names the client.
    """
    budget_j = checked_budget(budget_j)
    clients, ids = _in_order(reports)
    costs_j = numbers(reports, clients, "cost_j", COST_J)
    trained = _trained(parts.last, ids, flags(reports, clients, "trained"))
    observations, accuracies, largest = _observations(parts, reports, clients, costs_j, trained, budget_j)
    candidates = np.array([flag is not False for flag in flags(reports, clients, "candidate")], dtype=bool)
    return Observed(
        reports=reports,
        clients=clients,
        ids=ids,
        observations=observations,
        budget_j=budget_j,
        costs_j=costs_j,
        accuracies=accuracies,
        largest=largest,
        trained=trained,
        candidates=candidates,
        prior_reports=None if parts.prior is None else numbers(reports, clients, parts.prior.key),
        updates=_updates(parts, reports, clients),
    )


def _observations(
    parts: SelectorParts,
    reports: Reports,
    clients: Sequence[Hashable],
    costs_j: np.ndarray,
    trained: np.ndarray,
    budget_j: float,
) -> tuple[np.ndarray, np.ndarray, float]:
    """Returns what policies observe, as reported or, where nothing is, made of the reports as in the environment.

    Args:
        parts: The selector.
        reports: The reports of N clients.
        clients: They, in the order of training.
        costs_j: ``float64[N]``
        trained: ``bool[N]``, who trained in the last round.
        budget_j: Budget of the round.

    Returns:
        ``float32[N, obs_dim]`` observations, ``float64[N]`` accuracies, NaN where none is known, and the largest number
        of samples that any client has reported so far.
    """
    given, size = entries(reports, clients, "observation"), len(parts.observation_high)
    if any(observation is not None for observation in given):
        accuracies = np.full(len(clients), np.nan)
        if parts.reward is not None:
            accuracies = numbers(reports, clients, "accuracy", ACCURACY, optional=True)
        rows = [checked_vector(c, o, "observation", size) for c, o in zip(clients, given, strict=True)]
        return np.stack(rows).astype(np.float32), accuracies, parts.largest
    if not clients:
        return np.empty((0, size), dtype=np.float32), np.empty(0), parts.largest
    if size != shared("rules.observation").OBSERVATION_SIZE:
        raise ValueError(f"the policies were trained on {size} numbers; each report needs them as its observation")
    accuracies = numbers(reports, clients, "accuracy", ACCURACY)
    num_samples = numbers(reports, clients, "num_samples", NUM_SAMPLES)
    largest = max(parts.largest, float(num_samples.max()))
    observations = shared("rules.observation").observation_rows(
        accuracies,
        num_samples,
        costs_j,
        trained,
        mean_accuracy=float(np.mean(accuracies)),
        most_samples=largest,
        budget_j=budget_j,
        high=parts.observation_high,
    )
    return observations, accuracies, largest


def _in_order(reports: Reports) -> tuple[list[Any], list[str]]:
    """Returns the clients in the order of training, and their policies."""
    check_mapping(reports, "reports")
    try:
        clients = sorted(reports)
    except TypeError:  # ids of several kinds
        clients = sorted(reports, key=str)
    by_id: dict[str, Any] = {}
    for client in clients:
        check_name(client)
        other = by_id.setdefault(policy_of(client), client)
        if other is not client:
            raise ValueError(f"{other!r} and {client!r} would share the policy {policy_of(client)!r}; leave one out")
    return clients, list(by_id)


def _trained(last: LastRound | None, ids: Sequence[str], reported: Sequence[bool | None]) -> np.ndarray:
    """Returns ``bool[N]``, who trained in the last round; all did before the first one, as in the environment."""
    recorded = dict(zip(last.policy_ids, last.trained.tolist(), strict=True)) if last else {}
    known = [recorded.get(p, last is None) if flag is None else flag for p, flag in zip(ids, reported, strict=True)]
    return np.array(known, dtype=bool)


def _updates(parts: SelectorParts, reports: Reports, clients: Sequence[Hashable]) -> list[dict[str, Any]] | None:
    """Returns what update matching reads of each client."""
    matching = parts.matching
    if matching is None:
        return None
    limits = NUM_SAMPLES if matching.size_key == "num_samples" else (math.ulp(0.0), math.inf)
    sizes = numbers(reports, clients, matching.size_key, limits)
    size, result = matching.profile_size, []
    for client, given, number in zip(clients, entries(reports, clients, matching.key), sizes.tolist(), strict=True):
        profile = None if given is None else checked_vector(client, given, matching.key, size)
        size = size if profile is None else len(profile)
        result.append({matching.key: profile, matching.size_key: number})
    return result
