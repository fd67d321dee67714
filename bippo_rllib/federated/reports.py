"""What clients report to a server, and its checks. NumPy only."""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from bippo_rllib.as_numbers import as_float, as_vector
from bippo_rllib.fields import is_unicode, real
from bippo_rllib.setting_error import did_you_mean, shown


@dataclass(frozen=True, kw_only=True)
class ClientReport:
    """What a server knows of a client that is available in a round, by the names of the environment's infos.

    All fields are given by name.

    Attributes:
        accuracy: Accuracy of the global model on the client's test data, in [0, 1].
        num_samples: Number of the client's training samples, at least 1.
        cost_j: Joules that training the client costs in this round, at least 0. Any other unit will do if the budget
            has it too.
        loss: Loss of the global model on the client's training data, at least 0. It is needed where
            ``ClientSelector.needs_loss``, as by ``oort`` and ``poc``, and else not read.
        trained: Whether the client trained in the last round; None to use what the selector recorded.
        candidate: Whether the client may be selected in this round. One that may not is observed all the same, so that
            its policy learns from its last round.
        update_profile: ``float32[size]`` sketch of the client's latest update, see ``update_profile``, if it trained
            since the last ``select``, else None; read only by update matching, as in ``bippo-s``.
    """

    accuracy: float
    num_samples: int
    cost_j: float
    loss: float | None = None
    trained: bool | None = None
    candidate: bool = True
    update_profile: np.ndarray | None = field(default=None, compare=False, repr=False)


#: By client: a ``ClientReport``, or a mapping with its entries. Clients of other environments than ``FederatedRounds``
#: have under ``observation`` what their policies were trained on, beside ``cost_j`` and what a prior reads.
Reports = Mapping[Any, ClientReport | Mapping[str, Any]]

#: Lowest and highest values of a ``ClientReport``, and of reports after a round.
ACCURACY, NUM_SAMPLES, COST_J, LOSS = (0.0, 1.0), (1.0, math.inf), (0.0, math.inf), (0.0, math.inf)
EFFECT, ANY = (-1.0, 1.0), (-math.inf, math.inf)
_LARGEST_FLOAT32 = float(np.finfo(np.float32).max)
REWARD = (-_LARGEST_FLOAT32, _LARGEST_FLOAT32)


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
    """Returns ``float64[len(clients)]``, their reports under ``key``; NaN for missing ones, if ``optional``.

    Raises:
        ValueError: If a number is missing, not finite or outside ``limits``; the message names the client.
    """
    values = []
    for client, value in zip(clients, entries(reports, clients, key), strict=True):
        if value is None and not optional:
            _check_has(client, reports[client], key)
        values.append(math.nan if optional and value is None else checked_number(client, value, key, limits))
    return np.array(values, dtype=np.float64)


def flags(reports: Reports, clients: Sequence[Hashable], key: str) -> list[bool | None]:
    """Returns whether each client reports True or False under ``key``; None where it reports neither.

    Raises:
        ValueError: If it is something else; the message names the client.
    """
    values = entries(reports, clients, key)
    return [None if value is None else _flag(client, value, key) for client, value in zip(clients, values, strict=True)]


def checked_number(client: Hashable, value: Any, key: str, limits: tuple[float, float] = ANY) -> float:
    """Returns ``value`` as a number.

    Raises:
        ValueError: If it is not finite or outside ``limits``; the message names the client and ``key``.
    """
    try:
        return number_within(value, key, limits)
    except ValueError as error:
        raise ValueError(f"{client!r} {error}") from None


def number_within(value: Any, key: str, limits: tuple[float, float] = ANY) -> float:
    """Returns ``value`` as a number.

    Raises:
        ValueError: If it is not finite or outside ``limits``; the message names ``key``, and goes behind who has it.
    """
    low, high = limits
    number = as_float(value)
    if number is not None and math.isfinite(number) and low <= number <= high:
        return number
    raise ValueError(f"has {key} = {shown(value)}; expected {real(low, high).expected}")


def checked_vector(client: Hashable, value: Any, key: str, size: int | None) -> np.ndarray:
    """Returns ``value`` as ``float64[size]``; of any length from 1 if ``size`` is None.

    Raises:
        ValueError: If it has another shape or numbers that are not finite in float32; the message names the client.
    """
    array = as_vector(value)
    if array is None or size not in (None, array.size) or not (np.abs(array) <= _LARGEST_FLOAT32).all():
        expected = "finite numbers" if size is None else f"{size} finite numbers"
        raise ValueError(f"{client!r} has {key} = {shown(value)}; expected {expected}")
    return array


def check_mapping(value: Any, name: str) -> None:
    """Raises a ValueError unless ``value``, which has this name in the plural, is a mapping."""
    if not isinstance(value, Mapping):
        raise ValueError(f"{name} is {shown(value)}; expected a mapping from each client to its part of the {name}")


def checked_clients(clients: Any, name: str) -> list[Any]:
    """Returns the clients as a list.

    Raises:
        ValueError: For a text, whose letters are no clients, and for what is no collection.
    """
    if isinstance(clients, str | bytes) or not isinstance(clients, Iterable):
        raise ValueError(f"{name} is {shown(clients)}; expected a list of clients, such as [{shown(clients)}]")
    return list(clients)


def checked_budget(budget_j: Any) -> float:
    """Returns ``budget_j`` as a number.

    Raises:
        ValueError: If it is no number of at least 0.
    """
    number = as_float(budget_j)
    if number is None or not number >= 0.0:
        raise ValueError(f"budget_j is {shown(budget_j)}; it must be at least 0 (math.inf for no limit)")
    return number


def check_name(client: Hashable) -> None:
    """Raises a ValueError where the text of ``client`` can name no policy: initial weights are keyed by its bytes."""
    if not is_unicode(str(client)):
        raise ValueError(f"{client!r} has half of a surrogate pair in its text; give it another id")


def _check_has(client: Hashable, report: Any, key: str) -> None:
    """Raises a ValueError where a mapping lacks ``key``, or a report is none."""
    if isinstance(report, Mapping):
        if key not in report:
            hint = did_you_mean(key, map(str, report))
            raise ValueError(f"{client!r} has no {key}; its report has {shown(list(report))}{hint}")
    elif not isinstance(report, ClientReport):
        raise ValueError(f"the report of {client!r} is {shown(report)}; expected a ClientReport or a mapping")


def _flag(client: Hashable, value: Any, key: str) -> bool:
    if isinstance(value, bool | np.bool_ | int | float | np.number):  # a prior may read a number by that name
        return bool(value)
    raise ValueError(f"{client!r} has {key} = {shown(value)}; expected True or False")
