"""The learner of independent policies: collects participations and updates the policies whose batch is full."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from ray.rllib.env.multi_agent_episode import MultiAgentEpisode

from bippo_rllib.learning.adam import StackedAdam
from bippo_rllib.learning.episode_experience import from_episode
from bippo_rllib.learning.experience import StepExperience
from bippo_rllib.learning.participation_buffer import ParticipationBuffer
from bippo_rllib.learning.ppo_update import PPOSettings, UpdateStatistics, update_policies
from bippo_rllib.learning.step_learner import StepLearner
from bippo_rllib.policies.policy_bank import PolicyBank
from bippo_rllib.policies.saved_policies import PolicyShape

POLICY_IDS = "policy_ids"


class BippoLearner(StepLearner[StepExperience]):
    """Independent PPO on participations only, batched over policies.

    Attributes:
        buffer: Participations that wait until a policy's batch is full.
    """

    buffer: ParticipationBuffer

    @property
    def bank(self) -> PolicyBank:
        """The policies being trained."""
        return self.module

    @property
    def policy_shape(self) -> PolicyShape:
        """Whose policies are trained, and how large they are."""
        layout = self.bank.layout
        return PolicyShape(tuple(self.bank.slots), layout.obs_dim, layout.hidden_size)

    def configure_optimizers(self) -> None:
        """Adam moments and participation buffer of every slot in the bank."""
        layout = self.bank.layout
        self.adam = StackedAdam(self.bank.capacity, layout.size)
        self.buffer = ParticipationBuffer(self.bank.capacity, self.config.policy_batch_size, layout.obs_dim)

    def grow_to_bank(self) -> None:
        """Grows Adam and buffer to the bank's capacity; new moments and buffers are empty."""
        if self.bank.capacity > len(self.adam.all.steps):
            self.adam.grow(self.bank.capacity)
            self.buffer.grow(self.bank.capacity)

    def load_policies(self, state: Mapping[str, Any]) -> None:
        """Weights from a checkpoint's state dict; Adam and the buffer start afresh."""
        self.bank.set_state(state)
        self.configure_optimizers()

    def _follow_policies(self) -> None:
        self.grow_to_bank()

    def _as_step(self, episode: StepExperience | MultiAgentEpisode) -> StepExperience:
        if isinstance(episode, StepExperience):
            return episode
        return from_episode(episode, self.config.failed_key, self.bank.slots)

    def _store(self, step: StepExperience) -> None:
        ids = self.bank.ids
        trained = [i for i, slot in enumerate(step.slots.tolist()) if self.should_module_be_updated(ids[slot])]
        if trained:
            self.buffer.add(
                step.slots[trained],
                step.observations[trained],
                step.next_observations[trained],
                step.log_probs[trained],
                step.rewards[trained],
            )
        if step.episode_over:
            self.buffer.end_sequences(np.arange(self.bank.capacity))
        else:
            self.buffer.end_sequences(step.departed)

    def _update_full(self) -> UpdateStatistics | None:
        batch = self.buffer.take_full()
        if batch is None:
            return None
        return update_policies(self.bank.flat, self.bank.layout, self.adam, batch, PPOSettings.of(self.config))

    @property
    def _ids_by_slot(self) -> Sequence[str]:
        return self.bank.ids

    def _get_buffer_state(self) -> dict[str, Any]:
        policy_ids = list(self.bank.slots)
        return {POLICY_IDS: policy_ids, **self.buffer.get_state(self.bank.slots_of(policy_ids))}

    def _set_buffer_state(self, state: dict[str, Any]) -> None:
        self.buffer.set_state(state, self._slots_of_all(state[POLICY_IDS]))

    def _get_optimizer_state(self) -> dict[str, Any]:
        policy_ids = list(self.bank.slots)
        return {POLICY_IDS: policy_ids, **self.adam.get_state(self.bank.slots_of(policy_ids))}

    def _set_optimizer_state(self, state: dict[str, Any]) -> None:
        self.adam.set_state(state, self._slots_of_all(state[POLICY_IDS]))

    def _slots_of_all(self, policy_ids: list[str]) -> np.ndarray:
        """Slots of the named policies, which must be all there are."""
        self.grow_to_bank()
        only_saved = sorted(set(policy_ids) - set(self.bank.slots))
        only_here = sorted(set(self.bank.slots) - set(policy_ids))
        if only_saved or only_here:
            raise ValueError(
                f"the checkpoint is of other policies: only in the checkpoint {only_saved}, only here {only_here}; "
                "build the algorithm for the same agents"
            )
        return self.bank.slots_of(policy_ids)
