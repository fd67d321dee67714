"""What a round is known by."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class RoundKey:
    """What the shuffles of a round are keyed by, besides the client."""

    seed: int
    episode: int
    round: int

    @classmethod
    def of_next_episode(cls, previous: RoundKey | None, seed: int | None, default_seed: int) -> RoundKey:
        """Round 0 of episode 0 of ``seed``; without one, of the episode after ``previous``, the first being 0.

        Raises:
            ValueError: If ``seed`` is no whole number of at least 0.
        """
        if seed is not None and (isinstance(seed, bool) or int(seed) != seed or seed < 0):
            raise ValueError(f"seed is {seed!r}; it must be a whole number of at least 0")
        if seed is not None or previous is None:
            return cls(int(default_seed if seed is None else seed), episode=0, round=0)
        return cls(previous.seed, previous.episode + 1, round=0)
