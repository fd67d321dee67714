"""How work is spread over workers: pure functions of sizes."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain

import numpy as np

#: Samples in a batch of the evaluation.
EVALUATION_BATCH = 500


def pack(loads: Sequence[float], num_bins: int) -> list[list[int]]:
    """Packs items longest first, each into the bin with the least load so far.

    The fullest bin has at most 4/3 of the load that it has in the best packing (Graham 1969).

    Args:
        loads: Work of each item, such as a client's samples times its epochs.
        num_bins: Workers.

    Returns:
        Per bin the items in it, ascending; a bin may be empty. Equal loads go in item order, to the lowest bin.
    """
    bins: list[list[int]] = [[] for _ in range(num_bins)]
    filled = [0.0] * num_bins
    for item in sorted(range(len(loads)), key=lambda item: -loads[item]):
        least = filled.index(min(filled))
        bins[least].append(item)
        filled[least] += loads[item]
    return [sorted(items) for items in bins]


@dataclass(frozen=True)
class EvaluationShares:
    """Who evaluates which clients."""

    groups: list[list[list[int]]]  #: Per worker its groups of client ids; a group is evaluated as one batch.
    #: ``int64[number of clients]`` where in the list of clients each result belongs, worker by worker.
    places: np.ndarray


@functools.lru_cache(maxsize=8)
def evaluation_shares(clients: tuple[int, ...], sizes: tuple[int, ...], num_workers: int) -> EvaluationShares:
    """Spreads groups of clients over workers; kept for the next round, in which the clients are mostly the same.

    ``sizes`` are the samples of every client there is, not only of ``clients``.
    """
    loads = [sizes[client] for client in clients]
    groups = evaluation_groups(loads)
    packed = pack([sum(loads[place] for place in group) for group in groups], num_workers)
    shares = [[groups[number] for number in numbers] for numbers in packed]
    return EvaluationShares(
        groups=[[[clients[place] for place in group] for group in share] for share in shares],
        places=np.array(list(chain.from_iterable(chain.from_iterable(shares))), dtype=np.int64),
    )


def evaluation_groups(sizes: Sequence[int]) -> list[list[int]]:
    """Cuts clients, in order, into groups of up to ``EVALUATION_BATCH`` samples; a group holds at least one client.

    A group is evaluated as one batch and by one worker, so results do not depend on how many workers there are.
    """
    groups: list[list[int]] = []
    room = 0
    for place, size in enumerate(sizes):
        if not groups or size > room:
            groups.append([])
            room = EVALUATION_BATCH
        groups[-1].append(place)
        room -= size
    return groups
