"""Samples per client and class as whole numbers. NumPy only."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np


def equal_counts(label_sets: Sequence[Sequence[int]], sizes: Sequence[int], num_classes: int) -> np.ndarray:
    """Returns ``int64[num_clients, num_classes]`` samples, equal over each client's labels up to one.

    What does not divide goes to labels in turn, starting from another one for each client.
    """
    counts = np.zeros((len(sizes), num_classes), dtype=np.int64)
    for client, (labels, size) in enumerate(zip(label_sets, sizes, strict=True)):
        share, rest = divmod(size, len(labels))
        for place, label in enumerate(labels):
            counts[client, label] = share + ((place - client) % len(labels) < rest)
    return counts


def counts_in_mix(mixes: np.ndarray, sizes: Sequence[int]) -> np.ndarray:
    """Returns ``int64[num_clients, num_classes]`` samples in proportion to each client's row of ``mixes``.

    Every label of the mix gets a sample where the size suffices for that.
    """
    return np.stack([in_proportion(mix, size) for mix, size in zip(mixes, sizes, strict=True)])


def in_proportion(weights: np.ndarray, total: int) -> np.ndarray:
    """Returns whole numbers that sum to ``total``, in proportion to ``weights``.

    None is 0 where its weight is not, as long as ``total`` suffices for that; what this takes is taken from the
    largest numbers. No number exceeds its weight where ``total`` is not above the sum of whole ``weights``.
    """
    counts = largest_remainder(weights / weights.sum(), total)
    for place in np.flatnonzero((weights > 0) & (counts == 0)):
        largest = counts.argmax()
        if counts[largest] < 2:
            break
        counts[[largest, place]] += (-1, 1)
    return counts


def largest_remainder(shares: np.ndarray, total: int) -> np.ndarray:
    """Returns whole numbers that sum to ``total``, in proportion to ``shares``, which sum to 1."""
    exact = shares * total
    counts = np.floor(exact).astype(np.int64)
    rest = int(total - counts.sum())
    counts[np.argsort(counts - exact, kind="stable")[:rest]] += 1
    return counts
