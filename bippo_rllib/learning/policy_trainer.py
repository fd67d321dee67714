"""Independent PPO on participations: buffers them and updates policies whose batch is full. Works without Ray."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import numpy as np

from bippo_rllib.learning.adam import StackedAdam
from bippo_rllib.learning.experience import StepExperience
from bippo_rllib.learning.participation_buffer import ParticipationBuffer
from bippo_rllib.learning.ppo_update import PPOSettings, UpdateStatistics, update_policies
from bippo_rllib.policies.policy_stack import PolicyStack

#: Participations per update of a policy in the paper.
BATCH_SIZE = 2


class PolicyTrainer:
    """Trains the policies of a stack, both in RLlib's learner and in a deployed selector.

    Args:
        policies: The policies.
        batch_size: Participations per update of a policy.

    Attributes:
        policies: The policies.
        adam: Their optimiser.
        buffer: Participations of policies whose batch is not full.
    """

    def __init__(self, policies: PolicyStack, batch_size: int) -> None:
        self.policies = policies
        self.adam = StackedAdam(policies.capacity, policies.layout.size)
        self.buffer = ParticipationBuffer(policies.capacity, batch_size, policies.layout.obs_dim)

    def grow(self) -> None:
        """Grows Adam and buffer to the stack's capacity; new moments and buffers are empty."""
        if self.policies.capacity > len(self.adam.all.steps):
            self.adam.grow(self.policies.capacity)
            self.buffer.grow(self.policies.capacity)

    def add_policies(self, policy_ids: Sequence[str]) -> None:
        """Adds new policies; the others keep their weights, moments and buffers bit for bit."""
        self.policies.add_policies(policy_ids)
        self.grow()

    def remove_policy(self, policy_id: str) -> None:
        """Forgets a policy, its moments and what waits for it; the next new policy takes its slot."""
        slots = self.policies.slots_of([policy_id])
        self.buffer.clear(slots)
        self.adam.clear(slots)
        self.policies.free.append(self.policies.remove_policy(policy_id))

    @contextmanager
    def room_for(self, policy_ids: Sequence[str]) -> Iterator[None]:
        """Adds new policies for the block, and removes them again if it fails; other policies do not change."""
        policies = self.policies
        new, removed = [policy_id for policy_id in policy_ids if policy_id not in policies.slots], set(policies.removed)
        self.add_policies(new)
        try:
            yield
        except BaseException:
            for policy_id in new:
                self.remove_policy(policy_id)
            policies.removed = removed
            raise

    def store(self, step: StepExperience, is_trained: Callable[[str], bool]) -> None:
        """Buffers the participations of a step whose policies are trained, by ``is_trained(policy_id)``."""
        ids = self.policies.ids
        trained = [i for i, slot in enumerate(step.slots.tolist()) if is_trained(ids[slot])]
        if trained:
            self.buffer.add(
                step.slots[trained],
                step.observations[trained],
                step.next_observations[trained],
                step.log_probs[trained],
                step.rewards[trained],
            )
        if step.episode_over:
            self.end_sequences()
        else:
            self.buffer.end_sequences(step.departed)

    def end_sequences(self) -> None:
        """Marks the last stored step of every policy as the end of its sequence."""
        self.buffer.end_sequences(np.arange(self.policies.capacity))

    def update_full(self, settings: PPOSettings) -> UpdateStatistics | None:
        """Updates every policy whose batch is full; None if there is none."""
        batch = self.buffer.take_full()
        if batch is None:
            return None
        return update_policies(self.policies.flat, self.policies.layout, self.adam, batch, settings)
