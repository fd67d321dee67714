"""Two non-IID partitions that share the name Dirichlet, as samples per client and class. NumPy only."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from envs.checks import Shortage
from envs.data.class_counts import largest_remainder
from envs.rng import keyed_rng

_TRIES = 100
#: With this alpha all clients get nearly the same of each class.
_NEARLY_EVEN = 1e4


def counts_over_clients(sizes: Sequence[int], available: np.ndarray, alpha: float) -> np.ndarray:
    """Splits each class over the clients by one draw from Dir(alpha) (Yurochkin et al. 2019).

    Client sizes differ; ``sizes`` only gives their sum, which is taken from the classes in proportion to what is
    there. The draw is repeated, at most 100 times, until every client holds a sample.

    Returns:
        ``int64[num_clients, num_classes]``.

    Raises:
        ValueError: If some client is left without a sample; suggests a larger ``alpha`` only where one would do.
    """
    if (counts := _counts_without_empty(sizes, available, alpha)) is not None:
        return counts
    raising = alpha < _NEARLY_EVEN and _counts_without_empty(sizes, available, _NEARLY_EVEN) is not None
    raise Shortage(
        f"alpha={alpha} left a client without samples in all of {_TRIES} draws for {len(sizes)} clients and "
        f"{sum(sizes)} samples; raise {'alpha or ' if raising else ''}train_samples, or lower num_clients"
    )


def _counts_without_empty(sizes: Sequence[int], available: np.ndarray, alpha: float) -> np.ndarray | None:
    """The first draw in which every client holds a sample, or None if no draw is one."""
    num_clients, num_classes = len(sizes), len(available)
    totals = largest_remainder(available / available.sum(), sum(sizes))
    for attempt in range(_TRIES):
        rng = keyed_rng("dirichlet over clients", num_clients, num_classes, attempt)
        shares = rng.dirichlet(np.full(num_clients, alpha), size=num_classes)
        columns = [largest_remainder(share, total) for share, total in zip(shares, totals, strict=True)]
        counts = np.stack(columns, axis=1)
        if counts.sum(axis=1).min() > 0:
            return counts
    return None


def counts_over_labels(sizes: Sequence[int], available: np.ndarray, alpha: float) -> np.ndarray:
    """Draws each client's own label mix from Dir(alpha) over the classes (Hsu et al. 2019).

    Client sizes are ``sizes``. Once a class is used up, the clients that follow share their part of it over the
    classes that are left, in proportion to their mix.

    Returns:
        ``int64[num_clients, num_classes]``.
    """
    num_clients, num_classes = len(sizes), len(available)
    rng = keyed_rng("dirichlet over labels", num_clients, num_classes)
    mixes = rng.dirichlet(np.full(num_classes, alpha), size=num_clients)
    remaining = available.astype(np.int64)
    counts = np.zeros((num_clients, num_classes), dtype=np.int64)
    for client, (size, mix) in enumerate(zip(sizes, mixes, strict=True)):
        while (missing := size - counts[client].sum()) > 0:
            # The tiny floor keeps a client servable when its mix is 0 on every class that is left.
            open_mix = np.where(remaining > 0, np.maximum(mix, 1e-12), 0.0)
            taken = np.minimum(largest_remainder(open_mix / open_mix.sum(), missing), remaining)
            counts[client] += taken
            remaining -= taken
    return counts
