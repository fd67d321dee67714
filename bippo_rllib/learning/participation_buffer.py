"""Buffers of all policies' participations, kept until a policy's batch is full."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from bippo_rllib.policies.actor_critic import log_prob_participate


@dataclass(frozen=True)
class ParticipationBatch:
    """Full batches of P policies: sequences of K steps, oldest first, with S samples to learn from. Here S = K."""

    slots: Tensor  #: ``int64[P]`` slots of the policies that acted in them
    observations: Tensor  #: ``[P, K, obs_dim]`` state acted in
    next_observations: Tensor  #: ``[P, K, obs_dim]`` state after that round
    log_probs: Tensor  #: ``[P, S]`` log-probs of the samples under the policy when it acted
    rewards: Tensor  #: ``[P, K]`` reward of that round
    ends: Tensor  #: ``bool[P, K]`` True where no later step continues this one

    def log_probs_of(self, logits: Tensor) -> Tensor:
        """Computes the samples' log-probs ``[P, S]`` under other policies from logits ``[P, K, num_actions]``."""
        return log_prob_participate(logits)

    def of_samples(self, steps: Tensor) -> Tensor:
        """Maps values of steps to values of samples: ``[P, K]`` -> ``[P, S]``."""
        return steps


class ParticipationBuffer:
    """Fixed-size buffers of all policies, as arrays ``[N, K, ...]``.

    A policy's batch is full as soon as its client has participated ``batch_size`` times since its last update.
    Incomplete batches are kept, also across episodes.

    Args:
        num_policies: N.
        batch_size: K, participations per update.
        obs_dim: Length of one observation.
    """

    def __init__(self, num_policies: int, batch_size: int, obs_dim: int) -> None:
        self.batch_size = batch_size
        steps = (num_policies, batch_size)
        # By the names that they have in checkpoints and in a selector's file.
        self._arrays: dict[str, np.ndarray] = {
            "counts": np.zeros(num_policies, dtype=np.int64),
            "observations": np.zeros((*steps, obs_dim), dtype=np.float32),
            "next_observations": np.zeros((*steps, obs_dim), dtype=np.float32),
            "log_probs": np.zeros(steps, dtype=np.float32),
            "rewards": np.zeros(steps, dtype=np.float32),
            "ends": np.zeros(steps, dtype=bool),
        }

    @property
    def counts(self) -> np.ndarray:
        """Number of buffered participations of each policy, ``int64[N]``; a copy."""
        return self._arrays["counts"].copy()

    def add(
        self,
        slots: np.ndarray,
        observations: np.ndarray,
        next_observations: np.ndarray,
        log_probs: np.ndarray,
        rewards: np.ndarray,
    ) -> None:
        """Stores one participation of each policy in ``slots`` (``int64[P]``, none twice), arrays ``[P, ...]``.

        Raises:
            ValueError: If the batch of one of them is full.
        """
        counts = self._arrays["counts"][slots]
        if (counts >= self.batch_size).any():
            raise ValueError("a policy's batch is full and was not taken; update it before it acts again")
        self._arrays["observations"][slots, counts] = observations
        self._arrays["next_observations"][slots, counts] = next_observations
        self._arrays["log_probs"][slots, counts] = log_probs
        self._arrays["rewards"][slots, counts] = rewards
        self._arrays["ends"][slots, counts] = False
        self._arrays["counts"][slots] = counts + 1

    def end_sequences(self, slots: np.ndarray) -> None:
        """Marks the last stored step of each policy in ``slots`` as the end of its sequence."""
        counts = self._arrays["counts"]
        filled = slots[counts[slots] > 0]
        self._arrays["ends"][filled, counts[filled] - 1] = True

    def take_full(self) -> ParticipationBatch | None:
        """Removes and returns all full batches, in slot order; None if there is none."""
        slots = np.flatnonzero(self._arrays["counts"] == self.batch_size)
        if slots.size == 0:
            return None
        steps = {name: torch.from_numpy(rows) for name, rows in self.get_state(slots).items() if name != "counts"}
        self._arrays["counts"][slots] = 0
        return ParticipationBatch(torch.from_numpy(slots), **steps)

    def clear(self, slots: np.ndarray) -> None:
        """Forgets all that is stored for the policies in ``slots``."""
        for array in self._arrays.values():
            array[slots] = 0

    def grow(self, num_policies: int) -> None:
        """Adds empty buffers until there are ``num_policies``."""
        for name, array in self._arrays.items():
            grown = np.zeros((num_policies, *array.shape[1:]), dtype=array.dtype)
            grown[: array.shape[0]] = array
            self._arrays[name] = grown

    def get_state(self, slots: np.ndarray) -> dict[str, np.ndarray]:
        """Returns everything stored for the policies in ``slots`` (``int64[P]``), as arrays ``[P, ...]``."""
        return {name: array[slots] for name, array in self._arrays.items()}

    def check_state(self, state: Mapping[str, np.ndarray]) -> None:
        """Raises a ValueError if the state of another buffer has another batch size or observation length."""
        for name, array in self._arrays.items():
            if state[name].shape[1:] != array.shape[1:]:
                raise ValueError(
                    f"the checkpoint's participation buffer has shape {state[name].shape[1:]} per policy, this "
                    f"algorithm's {array.shape[1:]}; use the policy_batch_size and observations it was saved with"
                )

    def set_state(self, state: Mapping[str, np.ndarray], slots: np.ndarray) -> None:
        """Restores what ``get_state`` returned into ``slots``.

        Raises:
            ValueError: If the state holds another batch size or observation length. Nothing is changed then.
        """
        self.check_state(state)
        for name, array in self._arrays.items():
            array[slots] = state[name]
