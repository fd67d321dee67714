"""What a selector sees of the clients that are available in a round. Reads reports and changes nothing."""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from bippo_rllib.federated.last_round import LastRound
from bippo_rllib.federated.reports import (
    ACCURACY,
    COST_J,
    NUM_SAMPLES,
    Reports,
    check_name,
    checked_budget,
    entries,
    numbers,
    shown,
)
from bippo_rllib.federated.selector_parts import SelectorParts
from bippo_rllib.policies.agents import policy_of

#: Numbers that policies see of a ``ClientReport``.
OBSERVATION_SIZE = 5


@dataclass(frozen=True)
class Observed:
    """The N clients that are available, in the order that training has them in."""

    clients: list[Any]
    ids: list[str]  #: of their policies
    observations: np.ndarray  #: ``float32[N, obs_dim]``
    budget_j: float
    costs_j: np.ndarray  #: ``float64[N]``
    accuracies: np.ndarray  #: ``float64[N]``; NaN where none was reported
    prior_reports: np.ndarray | None  #: ``float64[N]`` what the prior reads; None without a prior
    largest: float  #: samples of the largest client so far
    candidates: np.ndarray  #: ``bool[N]`` whether each may be selected


def observe(parts: SelectorParts, reports: Reports, budget_j: float) -> Observed:
    """Reads all that a round is selected by.

    Accuracies and samples are those of FL, with their ranges, only where observations are made of them or a reward is
    known that may be computed of them: in another environment, numbers of these names are its own.

    Raises:
        ValueError: For a number that is missing or out of range, which is named with its client.
    """
    budget_j = checked_budget(budget_j)
    clients, ids = _in_order(reports)
    costs_j = numbers(reports, clients, "cost_j", COST_J)
    given, size = entries(reports, clients, "observation"), len(parts.observation_high)
    accuracies, largest = np.full(len(clients), np.nan), parts.largest
    if any(observation is not None for observation in given):
        if parts.reward is not None:
            accuracies = numbers(reports, clients, "accuracy", ACCURACY, optional=True)
        observations = np.stack([_vector(c, o, size) for c, o in zip(clients, given, strict=True)])
    elif not clients:
        observations = np.empty((0, size), dtype=np.float32)
    elif size != OBSERVATION_SIZE:
        raise ValueError(f"the policies were trained on {size} numbers; each report needs them as its observation")
    else:
        accuracies = numbers(reports, clients, "accuracy", ACCURACY)
        samples = numbers(reports, clients, "num_samples", NUM_SAMPLES)
        largest = max(largest, float(samples.max()))
        trained = _trained(parts.last, ids, entries(reports, clients, "trained"))
        observations = observation_rows(
            accuracies, samples, costs_j, trained, budget_j=budget_j, largest=largest, high=parts.observation_high
        )
    prior_reports = None if parts.prior is None else numbers(reports, clients, parts.prior.key)
    flags = entries(reports, clients, "candidate")
    candidates = np.array([flag is None or bool(flag) for flag in flags], dtype=bool)
    return Observed(clients, ids, observations, budget_j, costs_j, accuracies, prior_reports, largest, candidates)


def observation_rows(
    accuracies: np.ndarray,
    samples: np.ndarray,
    costs_j: np.ndarray,
    trained: np.ndarray,
    *,
    budget_j: float,
    largest: float,
    high: np.ndarray,
) -> np.ndarray:
    """Computes what the policies of the N available clients see, by the formulas of ``FederatedRounds``.

    Columns: mean accuracy, samples as a share of the largest client's, own accuracy, cost as a share of the budget (0
    if that is infinite, 1 if it is 0), trained in the last round.

    Args:
        accuracies: ``float64[N]``.
        samples: ``float64[N]``.
        costs_j: ``float64[N]``.
        trained: ``bool[N]``.
        budget_j: What the round may spend.
        largest: Samples of the largest client there is.
        high: ``float32[5]`` upper bounds of the environment's observations, at which they are cut off.

    Returns:
        ``float32[N, 5]``.
    """
    rows = np.empty((len(accuracies), OBSERVATION_SIZE), dtype=np.float32)
    rows[:, 0] = np.mean(accuracies)
    rows[:, 1] = samples / largest
    rows[:, 2] = accuracies
    with np.errstate(over="ignore"):  # what is too large for a float is cut off as well
        rows[:, 3] = 0.0 if math.isinf(budget_j) else costs_j / budget_j if budget_j else 1.0
    rows[:, 4] = trained
    return np.minimum(rows, high, out=rows)


def _in_order(reports: Reports) -> tuple[list[Any], list[str]]:
    """Clients in the order that training has them in, and their policies."""
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


def _trained(last: LastRound | None, ids: Sequence[str], reported: Sequence[Any]) -> np.ndarray:
    """``bool[N]``: who trained in the last round; everybody before the first, as after a round of all."""
    remembered = dict(zip(last.policy_ids, last.trained.tolist(), strict=True)) if last else {}
    flags = [
        remembered.get(p, last is None) if flag is None else bool(flag) for p, flag in zip(ids, reported, strict=True)
    ]
    return np.array(flags, dtype=bool)


def _vector(client: Hashable, observation: Any, size: int) -> np.ndarray:
    try:
        with np.errstate(over="ignore"):  # becomes infinite, and is refused
            array = np.asarray(np.nan if observation is None else observation, dtype=np.float32)
    except (TypeError, ValueError, OverflowError):
        array = np.empty(0, dtype=np.float32)
    if array.shape != (size,) or not np.isfinite(array).all():
        raise ValueError(f"{client!r} has observation = {shown(observation)}; expected {size} finite numbers")
    return array
