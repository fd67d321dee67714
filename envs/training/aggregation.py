"""FedAvg as sums of ``num_samples * weights`` in 64-bit fixed point.

Integer addition is associative: however the clients are spread over workers, and in whatever order partial sums
arrive, the average is the same to the last bit. One unit is 2**-32, finer than the spacing of float32 numbers down to
about 2**-9 (0.002); below that the rounding error is at most 1.2e-10.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

_SCALE = 2.0**32
_INT64_MAX = 2**63 - 1


@dataclass(frozen=True)
class ClientFailure:
    """A client whose training raised or diverged; ``reason`` is one line that names it."""

    client: int
    reason: str


@dataclass(frozen=True)
class WeightedSum:
    """A partial sum over some clients. Pickled with its array, which Ray moves faster than a tensor, on the CPU."""

    total: Tensor  #: ``int64[P]``, the sum of ``num_samples * weights`` in units of 2**-32.
    num_samples: int  #: Samples behind it.
    bound: int  #: No entry of ``total`` exceeds this; a Python integer, so the check itself cannot overflow.
    failed: tuple[ClientFailure, ...] = ()  #: Clients that were to be in the sum and are not.
    #: Pairs of a client and the joules that a meter read while it trained; empty without a meter.
    readings_j: tuple[tuple[int, float], ...] = ()
    #: Pairs of a client and why a meter could not be read while it trained.
    unread: tuple[tuple[int, str], ...] = ()
    #: Pairs of a client and what the federation asks about its update, by info key; empty if nothing.
    update_reports: tuple[tuple[int, Mapping[str, Any]], ...] = ()

    @property
    def failed_clients(self) -> list[int]:
        """Returns the ids of the clients in ``failed``."""
        return [failure.client for failure in self.failed]

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "total": self.total.cpu().numpy()}

    def __setstate__(self, state: dict[str, Any]) -> None:
        # A copy: what Ray returns is read-only memory of its object store.
        vars(self).update(state, total=torch.from_numpy(state["total"].copy()))


class WeightsTooLarge(ValueError):
    """Weights that the fixed point cannot hold, or that are not finite."""


def weighted(weights: Tensor, num_samples: int, all_samples: int | None = None) -> WeightedSum:
    """Returns one client's contribution.

    Args:
        weights: ``float32[P]`` finite flat weights, floating-point buffers included.
        num_samples: The client's training samples, its weight in the average.
        all_samples: Those of all clients there are; None for just this one's. If every client passes with it, no sum
            of them can overflow, so that whether a client is refused depends on that client alone.

    Raises:
        WeightsTooLarge: If a weight is not finite or too large for the fixed point.
    """
    # A sample's weight is rounded up by less than a unit, hence the 1.
    largest, limit = float(weights.abs().max()), (2**31 - 1) / (all_samples or num_samples)
    if not largest < limit:
        raise WeightsTooLarge(f"weights as large as {largest:g} cannot be averaged, the limit is {limit:g}")
    # Times a power of two is exact in float32 as well, and half the memory of float64.
    units = (weights * _SCALE).round_().to(torch.int64)
    bound = (int(largest * _SCALE) + 1) * num_samples
    return WeightedSum(units.mul_(num_samples), num_samples, bound)


def without(failure: ClientFailure, weights: Tensor) -> WeightedSum:
    """Returns the contribution of a client that failed: nothing, in the shape of ``weights``."""
    return WeightedSum(torch.zeros_like(weights, dtype=torch.int64), num_samples=0, bound=0, failed=(failure,))


def merged(sums: Iterable[WeightedSum]) -> WeightedSum:
    """Adds partial sums; any grouping and order gives the same bits.

    Raises:
        ValueError: If there is nothing to add or the sum may exceed 64 bits.
    """
    # One after the other: of a large model, not all clients' sums may fit into memory.
    total: Tensor | None = None
    num_samples = bound = 0
    failed: tuple[ClientFailure, ...] = ()
    readings_j: tuple[tuple[int, float], ...] = ()
    unread: tuple[tuple[int, str], ...] = ()
    update_reports: tuple[tuple[int, Mapping[str, Any]], ...] = ()
    for part in sums:
        num_samples += part.num_samples
        bound = _checked(bound + part.bound, num_samples)
        failed += part.failed
        readings_j += part.readings_j
        unread += part.unread
        update_reports += part.update_reports
        total = part.total.clone() if total is None else total.add_(part.total)
    if total is None:
        raise ValueError("no client to average; pass at least one")
    return WeightedSum(total, num_samples, bound, failed, readings_j, unread, update_reports)


def minus(total: WeightedSum, part: WeightedSum) -> WeightedSum:
    """Returns ``total`` without one of the sums it was merged from, to the last bit: the sum over the other clients."""
    return WeightedSum(total.total - part.total, total.num_samples - part.num_samples, total.bound - part.bound)


def mean(weighted_sum: WeightedSum) -> Tensor:
    """Returns the average weighted by samples, ``float32[P]``: ``sum(n_k * w_k) / sum(n_k)``."""
    return (weighted_sum.total.double() / (_SCALE * weighted_sum.num_samples)).float()


def _checked(bound: int, num_samples: int) -> int:
    if bound > _INT64_MAX:
        raise ValueError(
            f"averaging {num_samples} samples may overflow 64 bits: n*|w| sums up to {bound / _SCALE:g}, "
            f"the limit is {_INT64_MAX / _SCALE:g}; training diverged (lower lr) or there are too many samples"
        )
    return bound
