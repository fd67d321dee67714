"""Spread, bootstrap interval and paired differences over seeds. Pure functions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.stats import bootstrap

CONFIDENCE = 0.95
_RESAMPLES = 9999
_SEED = 0


@dataclass(frozen=True)
class Estimate:
    """Mean and population standard deviation (ddof 0, as the paper's) over `n` seeds, and where the mean may lie.

    `interval` is the 95 % percentile bootstrap interval of the mean, None for fewer than two seeds. With few seeds it
    is too narrow: it cannot leave the range of the values seen.
    """

    mean: float
    std: float
    n: int
    interval: tuple[float, float] | None

    @classmethod
    def of(cls, values: Sequence[float]) -> Estimate | None:
        """The estimate from one value per seed, or None if there are none."""
        if not len(values):
            return None
        return cls(float(np.mean(values)), float(np.std(values)), len(values), bootstrap_interval(values))


def bootstrap_interval(values: Sequence[float]) -> tuple[float, float] | None:
    """95 % percentile bootstrap interval of the mean; the same values, in any order, give the same one.

    Percentile, since bias-corrected intervals are not defined for two or three seeds that agree.
    """
    if len(values) < 2:
        return None
    drawn = bootstrap(
        (np.sort(np.asarray(values, dtype=np.float64)),),
        np.mean,
        n_resamples=_RESAMPLES,
        confidence_level=CONFIDENCE,
        method="percentile",
        rng=np.random.default_rng(_SEED),
    )
    return float(drawn.confidence_interval.low), float(drawn.confidence_interval.high)


@dataclass(frozen=True)
class Difference:
    """One method minus another on the same seeds. `positive` counts the seeds where the first has the larger value."""

    estimate: Estimate
    seeds: tuple[int, ...]
    positive: int


def paired_difference(first: Mapping[int, float], second: Mapping[int, float]) -> Difference | None:
    """`first` minus `second`, each seed -> value, over the seeds that both have; None if they share none."""
    seeds = tuple(sorted(first.keys() & second.keys()))
    differences = [first[seed] - second[seed] for seed in seeds]
    estimate = Estimate.of(differences)
    if estimate is None:
        return None
    return Difference(estimate, seeds, sum(difference > 0 for difference in differences))
