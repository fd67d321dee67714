"""The settings that a search tries: drawn before anything is run, so that a search that is resumed tries the same."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import islice
from typing import Any

import numpy as np

from experiments.study.settings import sampling_domain, with_absolute_trace

#: More could not be run: each is a trial for every method and seed.
MOST_DRAWS = 10_000


def drawn_settings(search: Mapping[str, str], num_samples: int, seed: int) -> tuple[dict[str, Any], ...]:
    """Settings to try, in order: the same draws every time.

    Args:
        search: Tune expression by key, as in ``--search``.
        num_samples: How many are drawn; each is tried with all values of every ``grid_search``.
        seed: Of the draws.

    Raises:
        ValueError: For an expression that Tune refuses, and for more than ``MOST_DRAWS`` settings.
    """
    from ray.tune.search.variant_generator import generate_variants

    space = {key: sampling_domain(key, expression) for key, expression in search.items()}
    rng = np.random.default_rng(seed)
    variants = (
        drawn
        for _ in range(num_samples)
        for _, drawn in generate_variants(space, constant_grid_search=True, random_state=rng)
    )
    settings = tuple(
        with_absolute_trace(
            {key: value.item() if isinstance(value, np.generic) else value for key, value in drawn.items()}
        )
        for drawn in islice(variants, MOST_DRAWS + 1)
    )
    if len(settings) > MOST_DRAWS:
        raise ValueError(f"a search of more than {MOST_DRAWS:,} settings; lower --num-samples or search less")
    return settings
