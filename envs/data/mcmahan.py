"""The two partitions of McMahan et al. 2017, as samples per client and class. NumPy only."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from envs.data.class_counts import largest_remainder
from envs.rng import keyed_rng


def counts_of_shards(sizes: Sequence[int], available: np.ndarray, shards_per_client: int) -> np.ndarray:
    """Cuts samples sorted by label into shards and gives each client ``shards_per_client`` of them at random.

    Samples are taken from the classes in proportion to what is there. All shards are of the same size; where a
    client's samples do not divide by ``shards_per_client``, some have one more, as many for each client. A shard may
    lie across the border of two classes, so that a client may hold more labels than shards.

    Args:
        sizes: ``[num_clients]`` samples, the same number for each, at least ``shards_per_client``.
        available: ``int64[num_classes]`` samples of the split.
        shards_per_client: Shards of each client.

    Returns:
        ``int64[num_clients, num_classes]``.
    """
    num_clients, num_classes = len(sizes), len(available)
    rng = keyed_rng("shards", num_clients, num_classes, shards_per_client)
    size, larger = divmod(sizes[0], shards_per_client)
    is_larger = rng.permutation(num_clients * shards_per_client) < num_clients * larger
    owners = np.empty(len(is_larger), dtype=np.int64)
    for which, per_client in ((is_larger, larger), (~is_larger, shards_per_client - larger)):
        owners[which] = rng.permutation(np.repeat(np.arange(num_clients), per_client))
    taken = largest_remainder(available / available.sum(), sum(sizes))
    counts = np.zeros((num_clients, num_classes), dtype=np.int64)
    np.add.at(counts, (np.repeat(owners, size + is_larger), np.repeat(np.arange(num_classes), taken)), 1)
    return counts


def iid_counts(sizes: Sequence[int], available: np.ndarray) -> np.ndarray:
    """Shuffles all samples and cuts them into parts of the clients' ``sizes``.

    Returns:
        ``int64[num_clients, num_classes]``.
    """
    num_classes = len(available)
    shuffled = keyed_rng("iid", len(sizes), num_classes).permutation(np.repeat(np.arange(num_classes), available))
    parts = np.split(shuffled, np.cumsum(sizes))[:-1]
    return np.stack([np.bincount(part, minlength=num_classes) for part in parts])
