"""Clients with wrong data: labels at random in place of the true ones. NumPy only."""

from __future__ import annotations

import numpy as np

from envs.rng import keyed_rng


def noisy_labels(labels: np.ndarray, share: float, num_classes: int, seed: int, client: int) -> np.ndarray:
    """Returns a copy in which ``round(share * n)`` of a client's labels are drawn anew, uniformly over all classes.

    These are the corrupted labels of Zhang et al. 2017 (arXiv:1611.03530), with an exact number of them; a draw may hit
    the true label. Draws depend on seed and client alone.

    Args:
        labels: ``int64[n]`` true labels.
        share: Share of them in [0, 1] that is drawn anew.
        num_classes: Classes of the data set.
        seed: Changes which are drawn anew, and what is drawn.
        client: The client that holds them.
    """
    rng = keyed_rng("label noise", seed, client)
    noisy = labels.copy()
    places = rng.permutation(len(labels))[: round(share * len(labels))]
    noisy[places] = rng.integers(num_classes, size=len(places))
    return noisy
