"""How work is spread over workers: pure functions of sizes."""

from __future__ import annotations

from collections.abc import Sequence


def pack(loads: Sequence[float], num_bins: int) -> list[list[int]]:
    """Longest first, each to the bin with the least load so far (Graham 1969: at most 4/3 of the best packing).

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
