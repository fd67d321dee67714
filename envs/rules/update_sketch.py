"""Sketches of model updates: what a client's training changed, in few numbers. NumPy only."""

from __future__ import annotations

import numpy as np

from envs.rng import keyed_rng


class UpdateSketch:
    """A sparse random projection of ``num_values`` numbers to ``size``, the same for all clients and executors.

    Every number has a random sign and a random one of ``size`` buckets of equal length, in which they are added up: a
    count sketch (Charikar et al., "Finding Frequent Items in Data Streams", 2002) whose buckets are balanced. The inner
    product of two sketches is in the mean over draws that of the two updates; its standard deviation is about
    ``|a| |b| / sqrt(size)``.

    Args:
        num_values: Parameters of the model.
        size: Numbers in a sketch, at least 1; no more than ``num_values`` are used.
        seed: Of the draws.
    """

    def __init__(self, num_values: int, size: int, seed: int) -> None:
        rng = keyed_rng("update sketch", seed, num_values, size)
        self.size = size
        self._buckets = min(size, num_values)
        length = -(-num_values // self._buckets)
        self._order = rng.permutation(num_values)
        self._signs = rng.choice(np.array([-1.0, 1.0], dtype=np.float32), num_values)
        self._padding = self._buckets * length - num_values

    def sketch(self, update: np.ndarray, num_samples: int) -> np.ndarray:
        """Returns the sketch of an update per training sample.

        Args:
            update: ``float32[num_values]`` parameters after training minus before.
            num_samples: Training samples behind it, at least 1.

        Returns:
            ``float32[size]``.
        """
        signed = np.pad(update[self._order] * self._signs, (0, self._padding))
        sketch = np.zeros(self.size, dtype=np.float32)
        sketch[: self._buckets] = signed.reshape(-1, self._buckets).sum(axis=0, dtype=np.float64) / num_samples
        return sketch
