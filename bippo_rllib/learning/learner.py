"""The learner of independent policies."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any

import numpy as np
from ray.rllib.core import COMPONENT_OPTIMIZER
from ray.rllib.env.multi_agent_episode import MultiAgentEpisode

from bippo_rllib.learning.episode_experience import from_episode
from bippo_rllib.learning.experience import StepExperience
from bippo_rllib.learning.participation_buffer import ParticipationBuffer
from bippo_rllib.learning.policy_trainer import PolicyTrainer
from bippo_rllib.learning.ppo_update import PPOSettings, UpdateStatistics
from bippo_rllib.learning.step_learner import BUFFER, StepLearner
from bippo_rllib.policies.policy_bank import PolicyBank
from bippo_rllib.policies.saved_policies import PolicyShape, only_in

#: Keys in the states of optimiser and buffer: ids of the policies, and of removed ones.
POLICY_IDS = "policy_ids"
REMOVED = "removed"


class BippoLearner(StepLearner[StepExperience]):
    """Independent PPO on participations only, batched over policies.

    Attributes:
        trainer: Buffer, optimiser and update of the policies.
        buffer: Participations of policies whose batch is not full.
    """

    trainer: PolicyTrainer
    buffer: ParticipationBuffer

    @property
    def bank(self) -> PolicyBank:
        """The policies being trained."""
        return self.module

    @property
    def policy_shape(self) -> PolicyShape:
        """Clients and sizes of the policies."""
        layout = self.bank.layout
        return PolicyShape(tuple(self.bank.slots), layout.obs_dim, layout.hidden_size)

    def configure_optimizers(self) -> None:
        """Makes Adam and the participation buffer for every slot of the bank."""
        self.trainer = PolicyTrainer(self.bank, self.config.policy_batch_size)
        self.adam, self.buffer = self.trainer.adam, self.trainer.buffer

    def load_policies(self, state: Mapping[str, Any]) -> None:
        """Loads weights from a checkpoint's state dict; Adam and the buffer are reset."""
        self.bank.set_state(state)
        self.configure_optimizers()

    def _follow_policies(self) -> None:
        self.trainer.grow()

    def _as_step(self, episode: StepExperience | MultiAgentEpisode) -> StepExperience:
        if isinstance(episode, StepExperience):
            return episode
        return from_episode(episode, self.config.not_learned_keys, self.bank.slots)

    def _store(self, step: StepExperience) -> None:
        self.trainer.store(step, self.should_module_be_updated)

    def _end_sequences(self) -> None:
        self.trainer.end_sequences()

    def _update_full(self) -> UpdateStatistics | None:
        return self.trainer.update_full(PPOSettings.of(self.config))

    @property
    def _ids_by_slot(self) -> Sequence[str]:
        return self.bank.ids

    def set_state(self, state: dict[str, Any]) -> None:
        """Restores a state that ``get_state`` returned; policies that it lacks as removed ones are removed."""
        super().set_state(state)
        if BUFFER in state:
            for policy_id in set(self.bank.slots) - set(state[BUFFER][POLICY_IDS]):
                self.trainer.remove_policy(policy_id)
            self.bank.removed = set(state[BUFFER][REMOVED])

    def check_state(self, state: Mapping[str, Any]) -> None:
        """See ``StepLearner.check_state``: ids and sizes of the policies must agree."""
        self._follow_policies()
        if BUFFER in state:
            self._check_policies(state[BUFFER])
            self.buffer.check_state(state[BUFFER])
        if COMPONENT_OPTIMIZER in state:
            self.adam.check_state(state[COMPONENT_OPTIMIZER])

    def room_for(self, state: Mapping[str, Any]) -> AbstractContextManager[None]:
        """See ``StepLearner.room_for``; new policies get slots in the order of the state."""
        return self.trainer.room_for(state.get(BUFFER, {}).get(POLICY_IDS, ()))

    def _get_buffer_state(self) -> dict[str, Any]:
        policy_ids = list(self.bank.slots)
        waiting = self.buffer.get_state(self.bank.slots_of(policy_ids))
        return {POLICY_IDS: policy_ids, REMOVED: sorted(self.bank.removed), **waiting}

    def _set_buffer_state(self, state: dict[str, Any]) -> None:
        self.buffer.set_state(state, self._slots_of(state[POLICY_IDS]))

    def get_optimizer_state(self) -> dict[str, Any]:
        """Returns Adam's moments."""
        policy_ids = list(self.bank.slots)
        return {POLICY_IDS: policy_ids, **self.adam.get_state(self.bank.slots_of(policy_ids))}

    def set_optimizer_state(self, state: dict[str, Any]) -> None:
        """Restores what ``get_optimizer_state`` returned."""
        self.adam.set_state(state, self._slots_of(state[POLICY_IDS]))

    def _slots_of(self, policy_ids: Sequence[str]) -> np.ndarray:
        self._follow_policies()
        return self.bank.slots_of(policy_ids)

    def _check_policies(self, state: Mapping[str, Any]) -> None:
        """Refuses a state that lacks current policies, unless they were removed before it was saved."""
        if POLICY_IDS not in state:
            raise ValueError("the checkpoint has one central network, this algorithm a policy for each agent")
        saved = state[POLICY_IDS]
        if not set(self.bank.slots) <= {*saved, *state[REMOVED]}:
            raise ValueError(
                f"the checkpoint is of other policies: only in the checkpoint {only_in(saved, self.bank.slots)}, only "
                f"here {only_in(self.bank.slots, saved)}; build the algorithm for the same agents"
            )
