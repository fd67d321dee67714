"""``Bippo``: one ``train()`` is one environment step."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

from pettingzoo import ParallelEnv
from pyarrow.fs import LocalFileSystem
from ray.rllib.algorithms.algorithm_config import AlgorithmConfig
from ray.rllib.core import COMPONENT_LEARNER, COMPONENT_LEARNER_GROUP
from ray.rllib.core.rl_module.multi_rl_module import MultiRLModule
from ray.rllib.env.env_runner_group import EnvRunnerGroup
from ray.rllib.env.multi_agent_env import MultiAgentEnv
from ray.rllib.utils.metrics import (
    ENV_RUNNER_RESULTS,
    ENV_RUNNER_SAMPLING_TIMER,
    LEARNER_RESULTS,
    LEARNER_UPDATE_TIMER,
    TIMERS,
)
from ray.tune import PlacementGroupFactory

from bippo_rllib.checkpoint_state import component_of, located, read_state
from bippo_rllib.config import BippoConfig
from bippo_rllib.federated.selector_file import SELECTOR_FILE
from bippo_rllib.federated.selector_of_algorithm import selector_bytes
from bippo_rllib.learning.policy_trainer import PolicyTrainer
from bippo_rllib.learning.step_learner import StepLearner
from bippo_rllib.policies.agents import environment_in
from bippo_rllib.policies.policy_bank import PolicyBank
from bippo_rllib.policies.saved_policies import absolute, read_policies
from bippo_rllib.rllib_compat import LateEvaluationPPO
from bippo_rllib.runners.env_runner import BippoEnvRunner
from bippo_rllib.runners.evaluation import global_generators_kept, prepare_evaluation
from bippo_rllib.runners.parallel_env import ParallelEnvAdapter
from bippo_rllib.selection.budget_sampler import BudgetSampler, checked_rate
from bippo_rllib.selection.metrics import SELECTION
from bippo_rllib.setting_error import SettingError


class Bippo(LateEvaluationPPO):
    """Budget-aware independent PPO. One ``train()`` is one environment step."""

    @classmethod
    def get_default_config(cls) -> BippoConfig:
        """Returns a new ``BippoConfig``."""
        return BippoConfig()

    @classmethod
    def default_resource_request(cls, config: Any) -> PlacementGroupFactory:
        """Overrides PPO's to add a bundle for each Ray actor of the environment, see ``BippoConfig.env_resources``.

        Args:
            config: A ``BippoConfig``, or settings of one as a dict. With an ``evaluation_interval`` there are two
                environments.
        """
        request = super().default_resource_request(config)
        bundles = config.get("env_bundles", []) * (2 if config.get("evaluation_interval") else 1)
        return PlacementGroupFactory([*request.bundles, *bundles], strategy=request.strategy) if bundles else request

    def setup(self, config: AlgorithmConfig) -> None:
        """Overrides PPO's to let env runner and learner share one policy bank, so that no weights are copied."""
        super().setup(config)
        self.env_runner.module = self.learner.module
        if self.config.evaluation_interval:
            self._make_evaluation_env_runner()

    def training_step(self) -> None:
        """Makes one environment step, then updates the policies whose batch is full.

        Overrides PPO's, which copies the weights of the policies that the learner's metrics name: here metrics are
        aggregates over policies.
        """
        with self.metrics.log_time((TIMERS, ENV_RUNNER_SAMPLING_TIMER)):
            episodes = self.env_runner.sample()
            self.metrics.aggregate([self.env_runner.get_metrics()], key=ENV_RUNNER_RESULTS)
        with self.metrics.log_time((TIMERS, LEARNER_UPDATE_TIMER)):
            results = self.learner_group.update(episodes=episodes)
            self.metrics.aggregate(results, key=LEARNER_RESULTS)

    def evaluate(self, parallel_train_future: None = None) -> Any:
        """Runs ``evaluation_duration`` episodes, one by default, in a separate environment; nothing is learned.

        Selections are greedy, the likeliest choice of each pick, with ``outside_odds`` also to spend no more; they
        explore if ``evaluation_config`` sets ``explore``, and then at its ``epsilon``, if it has one.
        Policies and connectors are copies of the training run's, whose episode, generators and epsilon stay as
        they are. With a seed, each evaluation starts with the same ``reset(seed=...)``.

        Args:
            parallel_train_future: Always None, as evaluation runs in this process.

        Returns:
            Metrics, such as ``["env_runners"]["episode_return_mean"]``.
        """
        self._make_evaluation_env_runner()
        with global_generators_kept():
            return super().evaluate(parallel_train_future)

    def _make_evaluation_env_runner(self) -> None:
        if self.eval_env_runner is None:
            with global_generators_kept():
                self.eval_env_runner_group = EnvRunnerGroup(config=self.evaluation_config, logdir=self.logdir)

    def _before_evaluate(self) -> None:
        prepare_evaluation(self.eval_env_runner, self.env_runner)

    def add_module(self, module_id: str, module_spec: None = None, **kwargs: Any) -> None:
        """Adds a new policy; the others keep their weights, moments and buffers bit for bit.

        Args:
            module_id: Its id.
            module_spec: Unsupported, must be None: all policies have the same form.
            **kwargs: Unsupported; RLlib's other arguments.
        """
        if module_spec is not None or kwargs:
            raise ValueError("all policies of BIPPO have the same form; call add_module with the id of the policy only")
        self._independent_trainer().add_policies([module_id])

    def remove_module(self, module_id: str, **kwargs: Any) -> None:
        """Removes a policy that no live agent uses. The running episode continues; RLlib's method would reset it.

        Raises:
            ValueError: If there is no such policy, or a live agent uses it.
        """
        trainer = self._independent_trainer()
        if module_id not in trainer.policies.slots:
            raise ValueError(f"there is no policy {module_id!r} to remove; see algo.bank.slots")
        if module_id in self.env_runner.live_policies:
            raise ValueError(f"a live agent acts with policy {module_id!r}; remove it when the agent has left")
        trainer.remove_policy(module_id)

    def _independent_trainer(self) -> PolicyTrainer:
        if not isinstance(self.bank, PolicyBank):
            raise ValueError("a central network has no policies to add or remove; it starts over when agents change")
        return self.learner.trainer

    def set_state(self, state: dict[str, Any]) -> None:
        """Restores the state that ``get_state`` returned, also under another env runner class.

        Raises:
            ValueError: If the state does not fit, such as one of other agents. The algorithm is unchanged then.
        """
        learner, saved = self.learner, state.get(COMPONENT_LEARNER_GROUP, {}).get(COMPONENT_LEARNER, {})
        learner.check_state(saved)
        with learner.room_for(saved):  # the env runner comes first, and may refuse
            super().set_state(state)
        self.metrics.delete(ENV_RUNNER_RESULTS, SELECTION, key_error=False)

    def save_to_path(self, path: str | Path | None = None, *, filesystem: Any = None, **kwargs: Any) -> str:
        """Overrides RLlib's to save the file that ``ClientSelector.load`` reads, too; a local path may be relative.

        Returns:
            The folder, an absolute path.

        Raises:
            SettingError: For ``use_msgpack=True``: ``restore_from_path`` reads pickles only.
        """
        if kwargs.get("use_msgpack"):
            raise SettingError("use_msgpack", True, "it must be False: restore_from_path reads pickles only")
        path = absolute(path, filesystem)
        if path is not None:
            path, filesystem = located(path, filesystem)
        saved = super().save_to_path(path, filesystem=filesystem, **kwargs)
        connectors, steps = self.env_runner.module_to_env.connectors, self.training_iteration
        content = selector_bytes(self.config, self.learner, connectors, steps, self.parallel_env)
        with (filesystem or LocalFileSystem()).open_output_stream(f"{saved}/{SELECTOR_FILE}") as file:
            file.write(content)
        return saved

    def restore_from_path(
        self, path: str | Path, *, component: str | None = None, filesystem: Any = None, **kwargs: Any
    ) -> None:
        """Restores a checkpoint, or only the ``component`` that was saved in the folder; a local path may be relative.

        Overrides RLlib's, which restores each component as soon as it is read, before the others are checked.

        Raises:
            ValueError: If the checkpoint does not fit, such as one of other agents. The algorithm is unchanged then.
        """
        folder, filesystem = located(absolute(path, filesystem), filesystem)
        owner = component_of(self, component)
        owner.set_state(read_state(owner, folder, filesystem))

    @classmethod
    def from_checkpoint(cls, path: Any, filesystem: Any = None, **kwargs: Any) -> Bippo:
        """Overrides RLlib's to accept a relative local path."""
        return super().from_checkpoint(absolute(path, filesystem), filesystem, **kwargs)

    def load_policies(self, path: str | Path, *, epsilon: float | None = None) -> None:
        """Loads the policies of another run with the same clients, whatever it was trained on.

        Actors and critics become those of the checkpoint, bit for bit. Adam's moments and waiting participations are
        reset; records of connectors, such as a prior's, stay, of which there are none before the first ``train()``.
        ``from_checkpoint`` resumes a run.

        Args:
            path: A checkpoint, as ``save_to_path`` or Tune wrote it; only the arrays of its policies are read.
            epsilon: Exploration rate to start from, in [0, 1]; ``epsilon_min`` by default, so that the policies are
                used.

        Raises:
            ValueError: If the checkpoint holds no policies, or policies of other clients, of another hidden size or
                observation length, or if ``epsilon`` is out of range. No policy is changed then.
        """
        rate = checked_rate("epsilon", self.sampler.epsilon_min if epsilon is None else epsilon)
        saved, learner = read_policies(path), self.learner
        if isinstance(self.env_runner, BippoEnvRunner):
            self.env_runner.start_episode()  # a central network is made for the live clients
        saved.check_fit(learner.policy_shape)
        learner.load_policies(saved.state)
        self.sampler.epsilon = rate

    @property
    def learner(self) -> StepLearner:
        """The learner, which runs in this process."""
        return next(iter(self.learner_group.foreach_learner(lambda learner: learner))).get()

    @property
    def bank(self) -> PolicyBank | MultiRLModule:
        """All policies; with ``CentralPPOConfig`` a ``MultiRLModule`` that holds the central network."""
        return self.env_runner.module

    @property
    def sampler(self) -> BudgetSampler:
        """The budget sampler of the training run."""
        return self.env_runner.sampler_connector().sampler

    @property
    def parallel_env(self) -> ParallelEnv | MultiAgentEnv:
        """The environment without RLlib's wrappers."""
        env = environment_in(self.env_runner.env)
        return env.parallel_env if isinstance(env, ParallelEnvAdapter) else env

    @property
    def env_seconds(self) -> float:
        """Wall-clock seconds spent in the ``ParallelEnv``; NaN for another kind of environment."""
        return getattr(environment_in(self.env_runner.env), "seconds", math.nan)
