"""Random generators keyed by what they are for, so that no result depends on who drew before or on which worker."""

from __future__ import annotations

import zlib
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class RoundKey:
    """What the shuffles of a round are keyed by, besides the client."""

    seed: int
    episode: int
    round: int

    @classmethod
    def of_next_episode(cls, previous: RoundKey | None, seed: int | None, default_seed: int) -> RoundKey:
        """Returns the key of round 0 of episode 0 of ``seed``; without a seed, of the episode after ``previous``.

        Without either it is episode 0 of ``default_seed``.

        Raises:
            ValueError: If ``seed`` is no whole number of at least 0.
        """
        if seed is not None and (isinstance(seed, bool) or not isinstance(seed, int | np.integer) or seed < 0):
            raise ValueError(f"seed is {seed!r}; it must be a whole number of at least 0")
        if seed is not None or previous is None:
            return cls(int(default_seed if seed is None else seed), episode=0, round=0)
        return cls(previous.seed, previous.episode + 1, round=0)


def keyed_seed(purpose: str, *keys: int) -> int:
    """Returns a 63-bit seed from a purpose and keys of at least 0, such as (seed, episode, client, round)."""
    return int(_sequence(purpose, keys).generate_state(1, np.uint64)[0] >> 1)


def keyed_rng(purpose: str, *keys: int) -> np.random.Generator:
    """Returns a NumPy generator of its own for a purpose and keys of at least 0."""
    return np.random.default_rng(_sequence(purpose, keys))


def _sequence(purpose: str, keys: tuple[int, ...]) -> np.random.SeedSequence:
    return np.random.SeedSequence([zlib.crc32(purpose.encode()), len(keys), *(int(key) for key in keys)])
