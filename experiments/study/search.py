"""The settings that a search tries: drawn before anything is run, so that a search that is resumed tries the same."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from experiments.study.settings import literal, sampling_domain


def drawn_settings(search: Mapping[str, str], num_samples: int, seed: int) -> tuple[dict[str, Any], ...]:
    """Settings to try, in order: the same draws every time.

    Args:
        search: Tune expression by key, as in `--search`.
        num_samples: How many are drawn; each is tried with all values of every `grid_search`.
        seed: Of the draws.

    Raises:
        ValueError: For an expression that Tune refuses.
    """
    from ray.tune.search.variant_generator import generate_variants

    space = {key: sampling_domain(key, expression) for key, expression in search.items()}
    rng = np.random.default_rng(seed)
    return tuple(
        {key: value.item() if isinstance(value, np.generic) else value for key, value in drawn.items()}
        for _ in range(num_samples)
        for _, drawn in generate_variants(space, constant_grid_search=True, random_state=rng)
    )


def ends(domain: Any) -> list[Any]:
    """The outermost values that a search space can yield: both ends of a range, every choice of a list.

    Ends that are hardly ever drawn count as the nearest number inside, so that `lr=uniform(0, 0.1)` is above 0. A
    normal distribution has no ends; its mean stands for it.
    """
    return [end.item() if isinstance(end, np.generic) else end for end in _ends(domain)]


def _ends(domain: Any) -> list[Any]:
    from ray.tune.search.sample import Integer

    if isinstance(domain, dict):
        return list(domain["grid_search"])
    if hasattr(domain, "categories"):
        return list(domain.categories)
    sampler = domain.get_sampler()
    low, high, step = domain.lower, domain.upper, getattr(sampler, "q", None)
    if not np.isfinite([low, high]).all():
        return [getattr(sampler, "sampler", sampler).mean]
    if step is not None:
        # Rounded first, for 0.3 / 0.1 is a little less than 3.
        low, high = np.ceil(round(low / step, 9)) * step, np.floor(round(high / step, 9)) * step
    if isinstance(domain, Integer):
        return [domain.cast(low), domain.cast(high if step not in (None, 1) else high - 1)]
    return [low, high] if step is not None else [float(np.nextafter(low, high)), float(np.nextafter(high, low))]


def as_text(draws: Sequence[Mapping[str, Any]]) -> list[dict[str, str]]:
    """For run.json: Python literals, which keep every bit of a number and tell tuples from lists."""
    return [{key: repr(value) for key, value in drawn.items()} for drawn in draws]


def from_text(draws: Sequence[Mapping[str, str]]) -> tuple[dict[str, Any], ...]:
    """What `as_text` was given."""
    return tuple({key: literal(text) for key, text in drawn.items()} for drawn in draws)
