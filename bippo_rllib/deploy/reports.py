"""What clients report to a server, and what policies see of it. NumPy only."""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np


@dataclass(frozen=True)
class Report:
    """What a server knows of a client that is available in a round.

    Attributes:
        accuracy: Of the global model on the client's own test data, in [0, 1].
        samples: Training samples, above 0.
        cost: What training it in this round costs, in the unit of the budget, at least 0.
        loss: Read only by a prior with the key ``loss``.
        trained: Whether it trained in the last round; None for as the selector remembers.
    """

    accuracy: float
    samples: int
    cost: float
    loss: float | None = None
    trained: bool | None = None


#: By client: a ``Report``, or a mapping with its entries. A client of another environment than ``FederatedRounds`` has
#: under ``observation`` what its policy was trained on, beside its ``cost`` and what a prior reads.
Reports = Mapping[Any, Report | Mapping[str, Any]]

#: Numbers that policies see of a ``Report``.
OBSERVATION_SIZE = 5

#: Entry -> lowest and highest value.
_RANGES = {"accuracy": (0.0, 1.0), "samples": (1.0, math.inf), "cost": (0.0, math.inf)}


def entries(reports: Reports, clients: Sequence[Hashable], key: str) -> list[Any]:
    """What each client reports under ``key``; None where nothing."""
    found = (reports[client] for client in clients)
    return [report.get(key) if isinstance(report, Mapping) else getattr(report, key, None) for report in found]


def numbers(reports: Reports, clients: Sequence[Hashable], key: str, *, optional: bool = False) -> np.ndarray:
    """``float64[len(clients)]``: what they report under ``key``; NaN where nothing, if ``optional``.

    Raises:
        ValueError: If a number is missing, not finite or out of range; the message names the client.
    """
    pairs = zip(clients, entries(reports, clients, key), strict=True)
    values = [math.nan if optional and value is None else checked_number(client, value, key) for client, value in pairs]
    return np.array(values, dtype=np.float64)


def checked_number(client: Hashable, value: Any, key: str) -> float:
    """``value`` as a number; a ValueError that names the client where it is none that ``key`` may have."""
    low, high = _RANGES.get(key, (-math.inf, math.inf))
    try:
        number = float(value)
    except (TypeError, ValueError):
        number = math.nan
    if math.isfinite(number) and low <= number <= high:
        return number
    limits = [f"at least {low:g}"] * (low > -math.inf) + [f"at most {high:g}"] * (high < math.inf)
    raise ValueError(f"{client!r} has {key} = {value!r}; expected a finite number {' and '.join(limits)}".rstrip())


def observe(
    reports: Reports,
    clients: Sequence[Hashable],
    costs: np.ndarray,
    trained: np.ndarray,
    budget: float,
    largest: float,
    high: np.ndarray,
) -> np.ndarray:
    """``float32[N, obs_dim]``: the observations that ``clients`` report, or else what ``observation_rows`` makes.

    Raises:
        ValueError: Naming the client and what is missing or wrong.
    """
    given = entries(reports, clients, "observation")
    if any(observation is not None for observation in given):
        return np.stack([_vector(c, o, len(high)) for c, o in zip(clients, given, strict=True)])
    if len(high) != OBSERVATION_SIZE:
        raise ValueError(f"the policies were trained on {len(high)} numbers; each report needs them as its observation")
    accuracies, samples = numbers(reports, clients, "accuracy"), numbers(reports, clients, "samples")
    return observation_rows(accuracies, samples, costs, trained, budget=budget, largest=largest, high=high)


def observation_rows(
    accuracies: np.ndarray,
    samples: np.ndarray,
    costs: np.ndarray,
    trained: np.ndarray,
    *,
    budget: float,
    largest: float,
    high: np.ndarray,
) -> np.ndarray:
    """What the policies of the N available clients see, by the formulas of the environment they were trained in.

    Columns: mean accuracy, samples as a share of the largest client's, own accuracy, cost as a share of the budget (0
    if that is infinite, 1 if it is 0), trained in the last round.

    Args:
        accuracies: ``float64[N]``.
        samples: ``float64[N]``.
        costs: ``float64[N]``.
        trained: ``bool[N]``.
        budget: What the round may spend.
        largest: Samples of the largest client there is.
        high: ``float32[5]`` upper bounds of the environment's observations, at which they are cut off.

    Returns:
        ``float32[N, 5]``.
    """
    rows = np.empty((len(accuracies), OBSERVATION_SIZE), dtype=np.float32)
    rows[:, 0] = np.mean(accuracies)
    rows[:, 1] = samples / largest
    rows[:, 2] = accuracies
    rows[:, 3] = 0.0 if math.isinf(budget) else costs / budget if budget else 1.0
    rows[:, 4] = trained
    return np.minimum(rows, high, out=rows)


def _vector(client: Hashable, observation: Any, size: int) -> np.ndarray:
    array = np.asarray(np.nan if observation is None else observation, dtype=np.float32)
    if array.shape != (size,) or not np.isfinite(array).all():
        raise ValueError(f"{client!r} has observation = {observation!r}; expected {size} finite numbers")
    return array
