"""The learner of the central network: buffers rounds, and updates when there are enough."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ray.rllib.core import COMPONENT_RL_MODULE

from bippo_rllib.baselines.central.experience import SLOT, CentralStep, batch_of
from bippo_rllib.baselines.central.policy import CentralPolicy
from bippo_rllib.learning.adam import StackedAdam
from bippo_rllib.learning.ppo_update import PPOSettings, UpdateStatistics, update_policies
from bippo_rllib.learning.step_learner import BUFFER, StepLearner
from bippo_rllib.policies.agents import CENTRAL
from bippo_rllib.policies.saved_policies import PolicyShape


class CentralLearner(StepLearner[CentralStep]):
    """PPO on the joint state. Adam and the buffered rounds start over whenever the network does."""

    @property
    def policy(self) -> CentralPolicy:
        """The network being trained."""
        return self.module[CENTRAL]

    @property
    def policy_shape(self) -> PolicyShape:
        """Clients and size of the network."""
        layout = self.policy.layout
        return PolicyShape(self.policy.clients, layout.obs_dim, layout.hidden_size, central=True)

    def configure_optimizers(self) -> None:
        """Makes Adam for one row, and an empty buffer of rounds."""
        self._generation = self.policy.generation
        self.adam = StackedAdam(1, self.policy.layout.size)
        self._rounds: list[CentralStep] = []
        self._ends: list[bool] = []

    def load_policies(self, state: Mapping[str, Any]) -> None:
        """See ``StepLearner.load_policies``."""
        self.policy.set_state(state)
        self.configure_optimizers()

    def _follow_policies(self) -> None:
        if self._generation != self.policy.generation:
            self.configure_optimizers()

    def _store(self, step: CentralStep) -> None:
        if step.generation != self.policy.generation or not self.should_module_be_updated(CENTRAL):
            return  # another network acted
        if step.num_participants:
            self._rounds.append(step)
            self._ends.append(False)
        if step.episode_over:
            self._end_sequences()

    def _end_sequences(self) -> None:
        if self._ends:
            self._ends[-1] = True

    def _update_full(self) -> UpdateStatistics | None:
        if len(self._rounds) < self.config.policy_batch_size:
            return None
        batch = batch_of(self._rounds, self._ends, self.config.shared_observations)
        self._rounds, self._ends = [], []
        return update_policies(self.policy.flat, self.policy.layout, self.adam, batch, PPOSettings.of(self.config))

    @property
    def _ids_by_slot(self) -> Sequence[str]:
        return [CENTRAL]

    def check_state(self, state: Mapping[str, Any]) -> None:
        """See ``StepLearner.check_state``: the state must be one of a central network of the same size."""
        if BUFFER in state and "generation" not in state[BUFFER]:
            raise ValueError("the checkpoint has a policy for each agent, this algorithm one central network")
        if CENTRAL in state.get(COMPONENT_RL_MODULE, {}):
            self.policy.row_of(state[COMPONENT_RL_MODULE][CENTRAL])

    def _get_buffer_state(self) -> dict[str, Any]:
        return {"generation": self._generation, "rounds": [vars(step) for step in self._rounds], "ends": self._ends}

    def _set_buffer_state(self, state: dict[str, Any]) -> None:
        self._generation = state["generation"]
        self._rounds = [CentralStep(**step) for step in state["rounds"]]
        self._ends = list(state["ends"])

    def get_optimizer_state(self) -> dict[str, Any]:
        """Returns Adam's moments."""
        return self.adam.get_state(SLOT.numpy())

    def set_optimizer_state(self, state: dict[str, Any]) -> None:
        """Restores what ``get_optimizer_state`` returned."""
        self.adam = StackedAdam(1, state["exp_avg"].shape[1])
        self.adam.set_state(state, SLOT.numpy())
