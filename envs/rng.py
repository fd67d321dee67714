"""Random generators keyed by what they are for, so that no result depends on who drew before or on which worker."""

from __future__ import annotations

import zlib

import numpy as np


def keyed_seed(purpose: str, *keys: int) -> int:
    """A 63-bit seed from a purpose and keys of at least 0, such as (seed, episode, client, round)."""
    return int(_sequence(purpose, keys).generate_state(1, np.uint64)[0] >> 1)


def keyed_rng(purpose: str, *keys: int) -> np.random.Generator:
    """A NumPy generator of its own for a purpose and keys of at least 0."""
    return np.random.default_rng(_sequence(purpose, keys))


def _sequence(purpose: str, keys: tuple[int, ...]) -> np.random.SeedSequence:
    return np.random.SeedSequence([zlib.crc32(purpose.encode()), len(keys), *(int(key) for key in keys)])
