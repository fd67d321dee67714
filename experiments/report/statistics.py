"""Estimates over seeds, their bootstrap intervals, and pairs on the same seeds. Pure functions."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np

CONFIDENCE = 0.95
_RESAMPLES = 9999
_SEED = 0


def bootstrap_interval(values: np.ndarray, batch: int | None = None) -> tuple[np.ndarray, np.ndarray]:
    """Returns the ends of the 95 % bootstrap interval of the mean of ``values[n, ...]`` over the first axis, n ≥ 2.

    Percentile, since bias-corrected intervals are not defined for two or three seeds that agree. With few seeds it is
    too narrow: it cannot leave the range of the values. ``batch`` limits how many resamples are in memory at a time.
    """
    from scipy.stats import bootstrap  # takes seconds to import

    found = bootstrap(
        (values,),
        np.mean,
        n_resamples=_RESAMPLES,
        batch=batch,
        axis=0,
        confidence_level=CONFIDENCE,
        method="percentile",
        rng=np.random.default_rng(_SEED),
    )
    return found.confidence_interval.low, found.confidence_interval.high


@dataclass(frozen=True)
class Estimate:
    """A quantity that has one value per seed, in ``values``; there may be none."""

    values: tuple[float, ...]

    @classmethod
    def of(cls, values: Iterable[float]) -> Estimate:
        """Returns the estimate from the values."""
        return cls(tuple(map(float, values)))

    @property
    def n(self) -> int:
        """Number of seeds."""
        return len(self.values)

    @property
    def mean(self) -> float:
        """Mean over seeds; NaN without any."""
        return float(np.mean(self.values)) if self.values else math.nan

    @property
    def std(self) -> float:
        """Population standard deviation over seeds (ddof 0, as the paper's); NaN without any."""
        return float(np.std(self.values)) if self.values else math.nan

    @cached_property
    def interval(self) -> tuple[float, float] | None:
        """``bootstrap_interval`` of the values, the same for any order of them; None for fewer than two."""
        if self.n < 2:
            return None
        low, high = sorted(map(float, bootstrap_interval(np.sort(self.values))))  # equal values differ by rounding
        return low, high


@dataclass(frozen=True)
class Paired:
    """Two quantities on the same seeds, each with one value per seed in the order of ``seeds``."""

    seeds: tuple[int, ...]
    ours: Estimate
    others: Estimate

    @classmethod
    def of(cls, ours: Mapping[int, float], others: Mapping[int, float]) -> Paired:
        """Returns the pair over the seeds that both have, from seed -> value of each."""
        seeds = tuple(sorted(ours.keys() & others.keys()))
        return cls(seeds, *(Estimate.of(values[seed] for seed in seeds) for values in (ours, others)))

    @property
    def difference(self) -> Estimate:
        """Ours minus the other's."""
        return Estimate.of(own - other for own, other in zip(self.ours.values, self.others.values, strict=True))

    @property
    def ratio(self) -> Estimate:
        """Ours divided by the other's."""
        return Estimate.of(own / other for own, other in zip(self.ours.values, self.others.values, strict=True))

    @property
    def wins(self) -> int:
        """Number of seeds on which ours is larger."""
        return sum(difference > 0 for difference in self.difference.values)
