"""Base of all learners, which buffer environment steps and update every policy whose batch is full."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any, Generic, TypeVar

from ray.rllib.core import ALL_MODULES
from ray.rllib.core.learner.training_data import TrainingData
from ray.rllib.core.rl_module.apis.value_function_api import ValueFunctionAPI
from ray.rllib.env.multi_agent_episode import MultiAgentEpisode
from ray.rllib.utils.metrics import NUM_ENV_STEPS_TRAINED, NUM_ENV_STEPS_TRAINED_LIFETIME

from bippo_rllib.learning.adam import StackedAdam
from bippo_rllib.learning.experience import Step
from bippo_rllib.learning.ppo_update import UpdateStatistics
from bippo_rllib.policies.saved_policies import PolicyShape
from bippo_rllib.rllib_compat import LeanLearner, is_wanted, names_of_single_values

#: Keys in a learner's state: of the waiting batches, and of the episode that they were last added to from.
BUFFER = "buffer"
EPISODE_ID = "episode_id"

#: Metric keys under ``learners/__all_modules__``.
NUM_PARTICIPANTS = "num_participants"
NUM_POLICIES_UPDATED = "num_policies_updated"

StepT = TypeVar("StepT", bound=Step)


class StepLearner(LeanLearner, Generic[StepT]):
    """A learner of environment steps; a subclass defines the buffer and the update.

    Not built on ``PPOTorchLearner``: its pipeline standardises advantages over a padded row, cuts 1-2-step batches
    into empty minibatches and fails on a batch without any module (RLlib 2.60). Here ``update`` takes the steps
    themselves.

    Attributes:
        adam: Optimiser of all policies, a row each.
    """

    adam: StackedAdam
    _episode_id: str = ""  #: of the last step stored

    def update(
        self,
        *,
        episodes: Sequence[StepT | MultiAgentEpisode] | None = None,
        training_data: TrainingData | None = None,
        timesteps: Mapping[str, Any] | None = None,
        **kwargs: Any,
    ) -> Any:
        """Stores the participations of the episodes and updates every policy whose batch is full.

        Args:
            episodes: What the env runner's ``sample`` returned; given here or in ``training_data``.
            training_data: As ``LearnerGroup.update`` passes it.
            timesteps: Ignored, since hyper-parameters are constants.
            **kwargs: RLlib's minibatch settings, which ``BippoConfig.validate`` refuses.

        Returns:
            The reduced metrics, all under ``__all_modules__`` unless ``per_policy_metrics`` is on.
        """
        if training_data is not None:
            training_data.solve_refs()
            episodes = training_data.episodes
        self._follow_policies()
        steps = [self._as_step(episode) for episode in episodes or []]
        for step in steps:
            if step.episode_id != self._episode_id:  # the previous episode may have been aborted
                self._end_sequences()
                self._episode_id = step.episode_id
            self._store(step)
        statistics = self._update_full()
        if statistics is not None:
            self.count_update()
        self._log(sum(step.num_participants for step in steps), len(steps), statistics)
        return self.metrics.reduce()

    @property
    @abstractmethod
    def policy_shape(self) -> PolicyShape:
        """Clients and sizes of the policies."""

    @abstractmethod
    def load_policies(self, state: Mapping[str, Any]) -> None:
        """Loads weights from a checkpoint's state dict; Adam and the buffer are reset."""

    def get_state(self, components: Any = None, *, not_components: Any = None, **kwargs: Any) -> dict[str, Any]:
        """Returns weights, Adam moments and incomplete batches."""
        state = super().get_state(components, not_components=not_components, **kwargs)
        if is_wanted(self, BUFFER, components, not_components):
            state |= {BUFFER: self._get_buffer_state(), EPISODE_ID: self._episode_id}
        return state

    def set_state(self, state: dict[str, Any]) -> None:
        """Restores the state that ``get_state`` returned.

        Raises:
            ValueError: If it does not fit, such as one of other policies. The learner is unchanged then.
        """
        self.check_state(state)
        self.forget_updates()
        super().set_state(state)
        if BUFFER in state:
            self._set_buffer_state(state[BUFFER])
            self._episode_id = state[EPISODE_ID]

    @abstractmethod
    def check_state(self, state: Mapping[str, Any]) -> None:
        """Raises a ValueError if ``set_state`` cannot restore ``state``, which may be empty."""

    def room_for(self, state: Mapping[str, Any]) -> AbstractContextManager[None]:
        """Adds the policies of ``state`` while the block restores it, and removes them again if it fails."""
        return nullcontext()

    def configure_optimizers_for_module(self, module_id: str, config: Any = None) -> None:
        """Adds rows to Adam and buffer when RLlib adds a policy."""
        self._follow_policies()

    def compute_loss_for_module(self, **kwargs: Any) -> Any:
        """Raises NotImplementedError: ``update`` computes the losses of all policies at once."""
        raise NotImplementedError(f"{type(self).__name__}.update computes the losses of all policies at once")

    @classmethod
    def rl_module_required_apis(cls) -> list[type]:
        """Returns the API of modules with a critic."""
        return [ValueFunctionAPI]

    @abstractmethod
    def _follow_policies(self) -> None:
        """Fits Adam and buffer to the current policies."""

    def _as_step(self, episode: StepT | MultiAgentEpisode) -> StepT:
        """Converts what the env runner returned to a step."""
        return episode

    @abstractmethod
    def _store(self, step: StepT) -> None:
        """Buffers a step."""

    @abstractmethod
    def _end_sequences(self) -> None:
        """Marks the buffered steps as ends of their sequences, which no later step continues."""

    @abstractmethod
    def _update_full(self) -> UpdateStatistics | None:
        """Updates every policy whose batch is full; None if there is none."""

    @abstractmethod
    def _get_buffer_state(self) -> dict[str, Any]:
        """Returns the state of the buffer."""

    @abstractmethod
    def _set_buffer_state(self, state: dict[str, Any]) -> None:
        """Restores ``_get_buffer_state``."""

    @property
    @abstractmethod
    def _ids_by_slot(self) -> Sequence[str]:
        """Policy id of each slot, for metrics."""

    @property
    def num_parameters(self) -> int:
        """Parameters of all policies."""
        return self.adam.all.exp_avg.numel()

    def _log(self, num_participants: int, num_env_steps: int, statistics: UpdateStatistics | None) -> None:
        values: dict[str, float] = {NUM_PARTICIPANTS: num_participants, NUM_POLICIES_UPDATED: 0}
        if statistics is not None:
            values[NUM_POLICIES_UPDATED] = len(statistics.slots)
            for key, tensor in statistics.metrics().items():
                extremes = {"mean": tensor.mean(), "min": tensor.min(), "max": tensor.max()}
                values |= {f"{key}_{name}": value.item() for name, value in extremes.items()}
            if self.config.per_policy_metrics:
                self._log_per_policy(statistics)
        else:  # or this step's result would repeat the last update's values
            values = dict.fromkeys(names_of_single_values(self.metrics), math.nan) | values
        for key, value in values.items():
            # A result has one step; RLlib's mean of a single value takes five times as long.
            self.metrics.log_value((ALL_MODULES, key), value, reduce="item")
        self.metrics.log_value((ALL_MODULES, NUM_ENV_STEPS_TRAINED), num_env_steps, reduce="sum")
        self.metrics.log_value((ALL_MODULES, NUM_ENV_STEPS_TRAINED_LIFETIME), num_env_steps, reduce="lifetime_sum")

    def _log_per_policy(self, statistics: UpdateStatistics) -> None:
        policy_ids = [self._ids_by_slot[slot] for slot in statistics.slots.tolist()]
        for key, tensor in statistics.metrics().items():
            for policy_id, value in zip(policy_ids, tensor.tolist(), strict=True):
                self.metrics.log_value((policy_id, key), value, window=1)
