"""The random generators of samplers and rankings. NumPy only."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np


def seed_for(seed: int | None, purpose: str) -> list[int] | None:
    """Returns the seed of a generator of its own for each purpose; None without a seed."""
    return None if seed is None else [seed, *purpose.encode()]


def new_generator(seed: int | Sequence[int] | np.random.SeedSequence | None) -> np.random.Generator:
    """Returns a new generator for ``seed``; None takes one from the operating system.

    Raises:
        ValueError: If ``seed`` is not a seed, such as -1.
    """
    try:
        return np.random.default_rng(seed)
    except (TypeError, ValueError):
        raise ValueError(
            f"seed is {seed!r}; it must be an integer of at least 0, a sequence of such, a SeedSequence or None"
        ) from None
