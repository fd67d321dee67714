"""What each policy experienced while its client took part, kept until its batch is full."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor


@dataclass(frozen=True)
class ParticipationBatch:
    """The full batches of P policies, K participations each, oldest first."""

    rows: Tensor  #: ``int64[P]`` whose they are
    observations: Tensor  #: ``[P, K, obs_dim]`` state the client acted in
    next_observations: Tensor  #: ``[P, K, obs_dim]`` its state after that round
    log_probs: Tensor  #: ``[P, K]`` log pi(participate | s) when it acted
    rewards: Tensor  #: ``[P, K]`` reward of that round
    ends: Tensor  #: ``bool[P, K]`` True where no later step continues this one


class ParticipationBuffer:
    """Fixed-size buffers of all policies, as arrays ``[N, K, ...]``.

    A policy's batch is full as soon as its client took part in ``batch_size`` rounds since its last update. Incomplete
    batches wait, also across episodes.

    Args:
        num_policies: N.
        batch_size: K, participations per update.
        obs_dim: Length of one observation.
    """

    def __init__(self, num_policies: int, batch_size: int, obs_dim: int) -> None:
        self._batch_size = batch_size
        self._counts = np.zeros(num_policies, dtype=np.int64)
        self._observations = np.zeros((num_policies, batch_size, obs_dim), dtype=np.float32)
        self._next_observations = np.zeros_like(self._observations)
        self._log_probs = np.zeros((num_policies, batch_size), dtype=np.float32)
        self._rewards = np.zeros_like(self._log_probs)
        self._ends = np.zeros((num_policies, batch_size), dtype=bool)

    @property
    def counts(self) -> np.ndarray:
        """``int64[N]`` participations waiting, a copy."""
        return self._counts.copy()

    def add(
        self,
        rows: np.ndarray,
        observations: np.ndarray,
        next_observations: np.ndarray,
        log_probs: np.ndarray,
        rewards: np.ndarray,
    ) -> None:
        """Stores one participation of each policy in ``rows`` (``int64[P]``, no row twice); shapes as in the batch."""
        slots = self._counts[rows]
        if (slots >= self._batch_size).any():
            raise ValueError("a policy's batch is full and was not taken; update it before it acts again")
        self._observations[rows, slots] = observations
        self._next_observations[rows, slots] = next_observations
        self._log_probs[rows, slots] = log_probs
        self._rewards[rows, slots] = rewards
        self._ends[rows, slots] = False
        self._counts[rows] = slots + 1

    def end_sequences(self, rows: np.ndarray) -> None:
        """Marks the last stored step of each policy in ``rows`` as the end of its sequence."""
        filled = rows[self._counts[rows] > 0]
        self._ends[filled, self._counts[filled] - 1] = True

    def take_full(self) -> ParticipationBatch | None:
        """Removes and returns all full batches, in row order; None if there is none."""
        rows = np.flatnonzero(self._counts == self._batch_size)
        if rows.size == 0:
            return None
        self._counts[rows] = 0
        index = torch.from_numpy(rows)
        arrays = (self._observations, self._next_observations, self._log_probs, self._rewards, self._ends)
        return ParticipationBatch(index, *(torch.from_numpy(array[rows]) for array in arrays))

    def clear(self, rows: np.ndarray) -> None:
        """Forgets what waits for the policies in ``rows``: their weights were replaced."""
        self._counts[rows] = 0

    def grow(self, num_policies: int) -> None:
        """Adds empty rows until there are ``num_policies``."""
        for name, array in self._arrays().items():
            grown = np.zeros((num_policies, *array.shape[1:]), dtype=array.dtype)
            grown[: array.shape[0]] = array
            setattr(self, name, grown)

    def get_state(self, rows: np.ndarray) -> dict[str, np.ndarray]:
        """Everything stored for the policies in ``rows`` (``int64[P]``), as arrays ``[P, ...]``."""
        return {name: array[rows] for name, array in self._arrays().items()}

    def set_state(self, state: Mapping[str, np.ndarray], rows: np.ndarray) -> None:
        """Restores what ``get_state`` returned into ``rows``.

        Raises:
            ValueError: If the state holds another batch size or observation length.
        """
        for name, array in self._arrays().items():
            if state[name].shape[1:] != array.shape[1:]:
                raise ValueError(
                    f"the checkpoint's participation buffer has shape {state[name].shape[1:]} per policy, this "
                    f"algorithm's {array.shape[1:]}; use the policy_batch_size and observations it was saved with"
                )
            array[rows] = state[name]

    def _arrays(self) -> dict[str, np.ndarray]:
        return {name: value for name, value in vars(self).items() if isinstance(value, np.ndarray)}
