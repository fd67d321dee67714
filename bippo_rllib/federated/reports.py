"""What clients report to a server, and its checks. NumPy only."""

from __future__ import annotations

import math
import reprlib
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from bippo_rllib.federated.record_fields import is_unicode


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

#: Lowest and highest value of what a ``Report`` holds, and of what is reported after a round.
ACCURACY, SAMPLES, COST = (0.0, 1.0), (1.0, math.inf), (0.0, math.inf)
EFFECT, ANY = (-1.0, 1.0), (-math.inf, math.inf)
_LARGEST_REWARD = float(np.finfo(np.float32).max)
REWARD = (-_LARGEST_REWARD, _LARGEST_REWARD)


def entries(reports: Reports, clients: Sequence[Hashable], key: str) -> list[Any]:
    """Returns what each client reports under ``key``; None where nothing."""
    found = (reports[client] for client in clients)
    return [report.get(key) if isinstance(report, Mapping) else getattr(report, key, None) for report in found]


def numbers(
    reports: Reports,
    clients: Sequence[Hashable],
    key: str,
    limits: tuple[float, float] = ANY,
    *,
    optional: bool = False,
) -> np.ndarray:
    """Returns ``float64[len(clients)]``, what they report under ``key``; NaN where nothing, if ``optional``.

    Raises:
        ValueError: If a number is missing, not finite or outside ``limits``; the message names the client.
    """
    pairs = zip(clients, entries(reports, clients, key), strict=True)
    values = [
        math.nan if optional and value is None else checked_number(client, value, key, limits)
        for client, value in pairs
    ]
    return np.array(values, dtype=np.float64)


def checked_number(client: Hashable, value: Any, key: str, limits: tuple[float, float] = ANY) -> float:
    """Returns ``value`` as a number.

    Raises:
        ValueError: If it is not finite or outside ``limits``; the message names the client and ``key``.
    """
    low, high = limits
    number = _as_float(value)
    if math.isfinite(number) and low <= number <= high:
        return number
    bounds = [f"at least {low:g}"] * (low > -math.inf) + [f"at most {high:g}"] * (high < math.inf)
    expected = f"a finite number {' and '.join(bounds)}".rstrip()
    raise ValueError(f"{client!r} has {key} = {shown(value)}; expected {expected}")


def checked_budget(budget: Any) -> float:
    """Returns ``budget`` as a number.

    Raises:
        ValueError: If it is none of at least 0.
    """
    number = _as_float(budget)
    if not number >= 0.0:
        raise ValueError(f"the budget is {shown(budget)}; it must be at least 0 (math.inf for no limit)")
    return number


def check_name(client: Hashable) -> None:
    """Raises a ValueError where the text of ``client`` can name no policy: initial weights are keyed by its bytes."""
    if not is_unicode(str(client)):
        raise ValueError(f"{client!r} has half of a surrogate pair in its text; give it another id")


def shown(value: Any) -> str:
    """Returns what a message shows of a value: one line, and of an array or a list the first few entries."""
    return " ".join(reprlib.repr(value).split())


def _as_float(value: Any) -> float:
    """NaN where ``value`` is no number."""
    try:
        return float(value)
    except (TypeError, ValueError, OverflowError):
        return math.nan
