"""The learner: collects participations and updates the policies whose batch is full."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from ray.rllib.core import ALL_MODULES
from ray.rllib.core.learner.torch.torch_learner import TorchLearner
from ray.rllib.core.learner.training_data import TrainingData
from ray.rllib.core.rl_module.apis.value_function_api import ValueFunctionAPI
from ray.rllib.env.multi_agent_episode import MultiAgentEpisode
from ray.rllib.utils.metrics import (
    NUM_ENV_STEPS_TRAINED,
    NUM_ENV_STEPS_TRAINED_LIFETIME,
    NUM_TRAINABLE_PARAMETERS,
)
from torch import Tensor

from bippo_rllib.learning.adam import StackedAdam
from bippo_rllib.learning.experience import StepExperience, from_episode
from bippo_rllib.learning.participation_buffer import ParticipationBuffer
from bippo_rllib.learning.ppo_update import PPOSettings, UpdateStatistics, update_policies
from bippo_rllib.policies.policy_bank import PolicyBank
from bippo_rllib.policies.saved_policies import PolicyPlan

PARTICIPATION_BUFFER = "participation_buffer"
POLICY_IDS = "policy_ids"

#: Metric keys under ``learners/__all_modules__``.
NUM_PARTICIPANTS = "num_participants"
NUM_POLICIES_UPDATED = "num_policies_updated"

#: With ``_mean``, ``_min`` and ``_max`` over the policies of the update; per policy with ``per_policy_metrics=True``.
LOSS_FIRST_EPOCH = "loss_first_epoch"
LOSS_LAST_EPOCH = "loss_last_epoch"
ADVANTAGE = "advantage"


@dataclass(frozen=True)
class Update:
    """One update: the P rows of the bank it changed, and what it did to each."""

    rows: list[int]
    statistics: UpdateStatistics


class BippoLearner(TorchLearner):
    """Independent PPO on participations only, batched over policies.

    Not built on ``PPOTorchLearner``: its pipeline standardises advantages over a padded row, cuts 1-2-step batches
    into empty minibatches and fails on a batch without any module (RLlib 2.60). Here ``update`` takes the episodes,
    keeps the participations in a buffer and runs ``update_policies`` on the full batches.
    """

    @property
    def bank(self) -> PolicyBank:
        """The policies being trained."""
        return self.module

    def configure_optimizers(self) -> None:
        """Stacked Adam moments and the participation buffer, one row per policy."""
        layout = self.bank.layout
        self.adam = StackedAdam(self.bank.capacity, layout.size)
        self.buffer = ParticipationBuffer(self.bank.capacity, self.config.policy_batch_size, layout.obs_dim)

    def configure_optimizers_for_module(self, module_id: str, config: Any = None) -> None:
        """Called when RLlib adds a policy: room for its moments and buffer."""
        self.make_room()

    def make_room(self) -> None:
        """Moments and buffer rows for every row of the bank; new ones are empty."""
        if self.bank.capacity > len(self.adam.all.steps):
            self.adam.grow(self.bank.capacity)
            self.buffer.grow(self.bank.capacity)

    def update(
        self,
        *,
        episodes: Sequence[StepExperience | MultiAgentEpisode] | None = None,
        training_data: TrainingData | None = None,
        timesteps: Mapping[str, Any] | None = None,
        **kwargs: Any,
    ) -> Any:
        """Stores the participations of the episodes and updates every policy whose batch is full.

        Args:
            episodes: What ``BippoEnvRunner.sample`` returned, or one-step chunks of RLlib episodes; given here or in
                ``training_data``.
            training_data: As ``LearnerGroup.update`` passes it.
            timesteps: Not used; the hyper-parameters are constants.
            **kwargs: Minibatch settings of the stock learner, refused in ``BippoConfig.validate``.

        Returns:
            Reduced metrics, all under ``__all_modules__`` unless ``per_policy_metrics`` is on.
        """
        self._check_is_built()
        if training_data is not None:
            training_data.solve_refs()
            episodes = training_data.episodes
        self.make_room()
        steps = [self._experience(episode) for episode in episodes or []]
        for step in steps:
            self._store(step)
        update = self._update_full()
        if update is not None:
            self._weights_seq_no += 1
        self._log(sum(step.num_participants for step in steps), len(steps), update)
        return self.metrics.reduce()

    def compute_loss_for_module(self, **kwargs: Any) -> Any:
        """Not used: ``update`` computes all policies' losses at once."""
        raise NotImplementedError("BippoLearner.update computes the losses of all policies at once")

    @classmethod
    def rl_module_required_apis(cls) -> list[type]:
        """Policies need a critic."""
        return [ValueFunctionAPI]

    @property
    def policy_plan(self) -> PolicyPlan:
        """Whose policies are trained, and how large they are."""
        layout = self.bank.layout
        return PolicyPlan(tuple(self.bank.rows), layout.obs_dim, layout.hidden_size)

    def load_policies(self, state: Mapping[str, Any]) -> None:
        """Weights from a checkpoint's state dict; Adam and the buffer start afresh."""
        self.bank.set_state(state)
        self.configure_optimizers()

    def get_state(self, components: Any = None, *, not_components: Any = None, **kwargs: Any) -> dict[str, Any]:
        """Weights, Adam moments, and the incomplete batches that wait."""
        state = super().get_state(components, not_components=not_components, **kwargs)
        if self._check_component(PARTICIPATION_BUFFER, components, not_components):
            state[PARTICIPATION_BUFFER] = self._buffer_state()
        return state

    def set_state(self, state: dict[str, Any]) -> None:
        """Restores ``get_state``.

        Raises:
            ValueError: If the state is of other policies.
        """
        super().set_state(state)
        if PARTICIPATION_BUFFER in state:
            self._set_buffer_state(state[PARTICIPATION_BUFFER])

    def _map_module_to_device(self, module: PolicyBank) -> None:
        """Nothing to move, the bank is on the CPU; the stock learner would make a module of every policy to move it."""

    def _log_trainable_parameters(self) -> None:
        """One total; the stock learner logs a value per policy."""
        self.metrics.log_value((ALL_MODULES, NUM_TRAINABLE_PARAMETERS), self._num_trainable_parameters(), window=1)

    def _num_trainable_parameters(self) -> int:
        return len(self.bank.rows) * self.bank.layout.size

    def _buffer_state(self) -> dict[str, Any]:
        policy_ids = list(self.bank.rows)
        return {POLICY_IDS: policy_ids, **self.buffer.get_state(self.bank.row_index(policy_ids))}

    def _set_buffer_state(self, state: dict[str, Any]) -> None:
        self.buffer.set_state(state, self._rows_of_all(state[POLICY_IDS]))

    def _get_optimizer_state(self) -> dict[str, Any]:
        policy_ids = list(self.bank.rows)
        return {POLICY_IDS: policy_ids, **self.adam.get_state(self.bank.row_index(policy_ids))}

    def _set_optimizer_state(self, state: dict[str, Any]) -> None:
        self.adam.set_state(state, self._rows_of_all(state[POLICY_IDS]))

    def _rows_of_all(self, policy_ids: list[str]) -> np.ndarray:
        """Rows of the named policies, which must be all there are."""
        self.make_room()
        if set(policy_ids) != set(self.bank.rows):
            only_saved = sorted(set(policy_ids) - set(self.bank.rows))
            only_here = sorted(set(self.bank.rows) - set(policy_ids))
            raise ValueError(
                f"the checkpoint is of other policies: only in the checkpoint {only_saved}, only here {only_here}; "
                "build the algorithm for the same agents"
            )
        return self.bank.row_index(policy_ids)

    def _experience(self, episode: StepExperience | MultiAgentEpisode) -> Any:
        return episode if isinstance(episode, StepExperience) else from_episode(episode, self.config.failed_key)

    def _store(self, step: Any) -> None:
        trained = [i for i, policy_id in enumerate(step.policy_ids) if self.should_module_be_updated(policy_id)]
        if trained:
            self.buffer.add(
                self.bank.row_index([step.policy_ids[i] for i in trained]),
                step.observations[trained],
                step.next_observations[trained],
                step.log_probs[trained],
                step.rewards[trained],
            )
        if step.episode_over:
            self.buffer.end_sequences(np.arange(self.bank.capacity))
        elif step.left:
            self.buffer.end_sequences(self.bank.row_index(step.left))

    def _update_full(self) -> Update | None:
        """Updates every policy whose batch is full; None if there is none."""
        batch = self.buffer.take_full()
        if batch is None:
            return None
        statistics = update_policies(self.bank.flat, self.bank.layout, self.adam, batch, self._settings())
        return Update(batch.rows.tolist(), statistics)

    def _ids_by_row(self) -> dict[int, str]:
        return {row: policy_id for policy_id, row in self.bank.rows.items()}

    def _settings(self) -> PPOSettings:
        config = self.config
        return PPOSettings(
            lr=config.lr,
            num_epochs=config.num_epochs,
            gamma=config.gamma,
            lambda_=config.lambda_,
            clip_param=config.clip_param,
            vf_loss_coeff=config.vf_loss_coeff,
            vf_clip_param=config.vf_clip_param,
            entropy_coeff=config.entropy_coeff,
            grad_clip=config.grad_clip,
        )

    def _log(self, num_participants: int, num_env_steps: int, update: Update | None) -> None:
        values: dict[str, float] = {NUM_PARTICIPANTS: num_participants, NUM_POLICIES_UPDATED: 0}
        if update is not None:
            values[NUM_POLICIES_UPDATED] = len(update.rows)
            for key, tensor in _by_key(update.statistics).items():
                extremes = {"mean": tensor.mean(), "min": tensor.min(), "max": tensor.max()}
                values |= {f"{key}_{name}": value.item() for name, value in extremes.items()}
            if self.config.per_policy_metrics:
                self._log_per_policy(update)
        for key, value in values.items():
            self.metrics.log_value((ALL_MODULES, key), value, window=1)
        self.metrics.log_value((ALL_MODULES, NUM_ENV_STEPS_TRAINED), num_env_steps, reduce="sum")
        self.metrics.log_value((ALL_MODULES, NUM_ENV_STEPS_TRAINED_LIFETIME), num_env_steps, reduce="lifetime_sum")

    def _log_per_policy(self, update: Update) -> None:
        policy_ids = self._ids_by_row()
        for key, tensor in _by_key(update.statistics).items():
            for row, value in zip(update.rows, tensor.tolist(), strict=True):
                self.metrics.log_value((policy_ids[row], key), value, window=1)


def _by_key(statistics: UpdateStatistics) -> dict[str, Tensor]:
    """``[P]`` per metric."""
    return {
        LOSS_FIRST_EPOCH: statistics.loss_first_epoch,
        LOSS_LAST_EPOCH: statistics.loss_last_epoch,
        ADVANTAGE: statistics.mean_advantage,
    }
