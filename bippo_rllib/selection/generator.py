"""The random generators of samplers and rankings. NumPy only."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np


def new_generator(seed: int | Sequence[int] | np.random.SeedSequence | None) -> np.random.Generator:
    """Returns a generator of its own for ``seed``; None seeds it from the operating system.

    Raises:
        ValueError: If ``seed`` is no seed, such as -1.
    """
    try:
        return np.random.default_rng(seed)
    except (TypeError, ValueError):
        raise ValueError(
            f"seed is {seed!r}; it must be an integer of at least 0, a sequence of such, a SeedSequence or None"
        ) from None
