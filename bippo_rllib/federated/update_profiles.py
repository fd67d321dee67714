"""Sketches of what clients' training changed, by which ``bippo-s`` selects. Needs NumPy alone."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from bippo_rllib.federated.environment import shared
from bippo_rllib.method_settings import METHOD_SETTINGS

#: Numbers in a profile; ``bippo-s`` is trained with as many.
PROFILE_SIZE = METHOD_SETTINGS["bippo-s"].update_profile_size


def update_profile(
    before: Sequence[Any] | np.ndarray,
    after: Sequence[Any] | np.ndarray,
    num_samples: int,
    *,
    size: int = PROFILE_SIZE,
    seed: int = 0,
) -> np.ndarray:
    """Sketches a client's update per training sample, the ``ClientReport.update_profile`` of its next report.

    A sketch keeps the inner products of updates (``envs.rules.update_sketch``), so a server can compute it from what a
    node sends anyway, and forget the update.

    Args:
        before: Trained parameters of the global model before the round, as one array or a sequence of arrays; no
            buffers, such as the running statistics of batch normalisation.
        after: The client's parameters after its training, in the same order.
        num_samples: Training samples of the client, at least 1.
        size: Numbers in the sketch, the same for all clients and rounds; ``bippo-s`` is trained with 64.
        seed: Seed of the projection, the same for all clients and rounds; in a simulation it is the run's.

    Returns:
        ``float32[size]``.

    Raises:
        ValueError: If there are no parameters, shapes differ, the update is not finite or its sums do not fit into
            float32, or a number is out of range.
    """
    if not num_samples >= 1 or size < 1:
        raise ValueError(f"num_samples is {num_samples} and size is {size}; both must be at least 1")
    old_arrays, new_arrays = _arrays(before), _arrays(after)
    if len(old_arrays) != len(new_arrays):
        raise ValueError(f"there are {len(old_arrays)} arrays before and {len(new_arrays)} after training")
    pairs = list(zip(old_arrays, new_arrays, strict=True))
    for number, (old, new) in enumerate(pairs):
        if old.shape != new.shape:
            raise ValueError(f"array {number} has shape {old.shape} before and {new.shape} after training")
    if not any(old.size for old in old_arrays):
        raise ValueError("there are no parameters to make a profile of")
    with np.errstate(over="ignore", invalid="ignore"):  # refused below
        update = np.concatenate([(new - old).ravel() for old, new in pairs])
        profile = _sketch(len(update), size, seed).sketch(update, num_samples)
    if not np.isfinite(profile).all():
        raise ValueError("the update is not finite, or too long for float32; leave the client's update_profile out")
    return profile


def _arrays(parameters: Sequence[Any] | np.ndarray) -> list[np.ndarray]:
    given = [parameters] if isinstance(parameters, np.ndarray) else parameters
    return [np.asarray(array, dtype=np.float32) for array in given]


@lru_cache(maxsize=2)
def _sketch(num_values: int, size: int, seed: int) -> Any:
    """Returns the projection, cached since drawing takes longer than using it."""
    return shared("rules.update_sketch").UpdateSketch(num_values, size, seed)
