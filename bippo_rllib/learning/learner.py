"""The learner of independent policies: collects participations and updates the policies whose batch is full."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from ray.rllib.env.multi_agent_episode import MultiAgentEpisode

from bippo_rllib.learning.episode_experience import from_episode
from bippo_rllib.learning.experience import StepExperience
from bippo_rllib.learning.participation_buffer import ParticipationBuffer
from bippo_rllib.learning.policy_trainer import PolicyTrainer
from bippo_rllib.learning.ppo_update import PPOSettings, UpdateStatistics
from bippo_rllib.learning.step_learner import StepLearner
from bippo_rllib.policies.policy_bank import PolicyBank
from bippo_rllib.policies.saved_policies import PolicyShape

POLICY_IDS = "policy_ids"


class BippoLearner(StepLearner[StepExperience]):
    """Independent PPO on participations only, batched over policies.

    Attributes:
        trainer: What the policies learn with.
        buffer: Participations that wait until a policy's batch is full.
    """

    trainer: PolicyTrainer
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
        self.trainer = PolicyTrainer(self.bank, self.config.policy_batch_size)
        self.adam, self.buffer = self.trainer.adam, self.trainer.buffer

    def load_policies(self, state: Mapping[str, Any]) -> None:
        """Weights from a checkpoint's state dict; Adam and the buffer start afresh."""
        self.bank.set_state(state)
        self.configure_optimizers()

    def _follow_policies(self) -> None:
        self.trainer.grow()

    def _as_step(self, episode: StepExperience | MultiAgentEpisode) -> StepExperience:
        if isinstance(episode, StepExperience):
            return episode
        return from_episode(episode, self.config.failed_key, self.bank.slots)

    def _store(self, step: StepExperience) -> None:
        self.trainer.store(step, self.should_module_be_updated)

    def _update_full(self) -> UpdateStatistics | None:
        return self.trainer.update_full(PPOSettings.of(self.config))

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
        self.trainer.grow()
        only_saved = sorted(set(policy_ids) - set(self.bank.slots))
        only_here = sorted(set(self.bank.slots) - set(policy_ids))
        if only_saved or only_here:
            raise ValueError(
                f"the checkpoint is of other policies: only in the checkpoint {only_saved}, only here {only_here}; "
                "build the algorithm for the same agents"
            )
        return self.bank.slots_of(policy_ids)
