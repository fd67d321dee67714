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
from bippo_rllib.selection.budget_sampler import BudgetSampler
from bippo_rllib.selection.metrics import SELECTION


class Bippo(LateEvaluationPPO):
    """Budget-aware independent PPO. One ``train()`` is one environment step."""

    @classmethod
    def get_default_config(cls) -> BippoConfig:
        """A fresh ``BippoConfig``."""
        return BippoConfig()

    @classmethod
    def default_resource_request(cls, config: Any) -> PlacementGroupFactory:
        """As PPO's, and a bundle for each actor of the environment, see ``BippoConfig.env_resources``.

        Args:
            config: A ``BippoConfig``, or settings of one as a dict. With an ``evaluation_interval`` there are two
                environments.
        """
        request = super().default_resource_request(config)
        bundles = config.get("env_bundles", []) * (2 if config.get("evaluation_interval") else 1)
        return PlacementGroupFactory([*request.bundles, *bundles], strategy=request.strategy) if bundles else request

    def setup(self, config: AlgorithmConfig) -> None:
        """As PPO's; env runner and learner then share one policy bank, so there are no weights to sync."""
        super().setup(config)
        self.env_runner.module = self.learner.module
        if self.config.evaluation_interval:
            self._make_evaluation_env_runner()

    def training_step(self) -> None:
        """One environment step, then one update of the policies whose batch is full.

        Not PPO's: that one finds the weights to sync by the policies named in the learner's metrics, and ours are
        aggregates.
        """
        with self.metrics.log_time((TIMERS, ENV_RUNNER_SAMPLING_TIMER)):
            episodes = self.env_runner.sample()
            self.metrics.aggregate([self.env_runner.get_metrics()], key=ENV_RUNNER_RESULTS)
        with self.metrics.log_time((TIMERS, LEARNER_UPDATE_TIMER)):
            results = self.learner_group.update(episodes=episodes)
            self.metrics.aggregate(results, key=LEARNER_RESULTS)

    def evaluate(self, parallel_train_future: None = None) -> Any:
        """Runs ``evaluation_duration`` episodes, one by default, in an environment of their own, and learns nothing.

        Selections are greedy unless ``evaluation_config`` sets ``explore``, and then at its ``epsilon``, if it has one.
        Policies and connector pieces are copies of the training run's, whose episode, generators and epsilon stay as
        they are. Each evaluation begins with the same ``reset(seed=...)``, if there is a seed.

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
        """Adds a fresh policy; the others keep their weights, moments and buffers bit for bit.

        Args:
            module_id: Its id.
            module_spec: Not taken: policies are all built alike.
            **kwargs: Likewise.
        """
        if module_spec is not None or kwargs:
            raise ValueError("BIPPO builds all policies alike; call add_module with the policy's id only")
        self._independent_trainer().add_policies([module_id])

    def remove_module(self, module_id: str, **kwargs: Any) -> None:
        """Removes a policy that no live agent uses. The running episode continues; RLlib's own method resets it.

        Raises:
            ValueError: If there is no such policy, or a live agent uses it.
        """
        trainer = self._independent_trainer()
        if module_id not in trainer.policies.slots:
            raise ValueError(f"there is no policy {module_id!r} to remove; see algo.bank.slots")
        if isinstance(self.env_runner, BippoEnvRunner) and module_id in self.env_runner.live_policies:
            raise ValueError(f"policy {module_id!r} is that of a live agent; remove it when the agent has left")
        trainer.remove_policy(module_id)

    def _independent_trainer(self) -> PolicyTrainer:
        if not isinstance(self.bank, PolicyBank):
            raise ValueError("a central network has no policies to add or remove; it starts over when agents change")
        return self.learner.trainer

    def set_state(self, state: dict[str, Any]) -> None:
        """Restores ``get_state``, also one of another env runner, which logs the selection in another way.

        Raises:
            ValueError: If it does not fit, such as that of other agents. The algorithm is then as it was.
        """
        learner, saved = self.learner, state.get(COMPONENT_LEARNER_GROUP, {}).get(COMPONENT_LEARNER, {})
        learner.check_state(saved)
        with learner.room_for(saved):  # the env runner comes first, and may refuse
            super().set_state(state)
        self.metrics.delete(ENV_RUNNER_RESULTS, SELECTION, key_error=False)

    def save_to_path(self, path: str | Path | None = None, *, filesystem: Any = None, **kwargs: Any) -> str:
        """As RLlib's, and in the same folder what ``ClientSelector.load`` reads; a local path may be relative.

        Returns:
            The folder, an absolute path.
        """
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

        RLlib's restores one component after the other as it reads them, so that what does not fit is found too late.

        Raises:
            ValueError: If it does not fit, such as that of other agents. The algorithm is then as it was.
        """
        folder, filesystem = located(absolute(path, filesystem), filesystem)
        owner = component_of(self, component)
        owner.set_state(read_state(owner, folder, filesystem))

    @classmethod
    def from_checkpoint(cls, path: Any, filesystem: Any = None, **kwargs: Any) -> Bippo:
        """As RLlib's, and a local path may be relative."""
        return super().from_checkpoint(absolute(path, filesystem), filesystem, **kwargs)

    def load_policies(self, path: str | Path, *, epsilon: float | None = None) -> None:
        """Starts from the policies of another run with the same clients, whatever it was trained on.

        Actors and critics become those of the checkpoint, bit for bit. Adam's moments, waiting participations and the
        prior's records start afresh. Call it before the first ``train()``; ``from_checkpoint`` is
        what resumes a run.

        Args:
            path: A checkpoint, as ``save_to_path`` or Tune wrote it; only the arrays of its policies are read.
            epsilon: Exploration rate to start from; ``epsilon_min`` by default, as what was learned is to be used.

        Raises:
            ValueError: If it holds no policies, or those of other clients, of another hidden size or observation
                length; the message names both sides.
        """
        saved, learner = read_policies(path), self.learner
        if isinstance(self.env_runner, BippoEnvRunner):
            self.env_runner.begin()  # a central network is for whoever is there
        saved.check_fit(learner.policy_shape)
        learner.load_policies(saved.state)
        self.sampler.epsilon = self.sampler.epsilon_min if epsilon is None else float(epsilon)

    @property
    def learner(self) -> StepLearner:
        """The learner, which is in this process."""
        return next(iter(self.learner_group.foreach_learner(lambda learner: learner))).get()

    @property
    def bank(self) -> PolicyBank | MultiRLModule:
        """All policies; with ``CentralPPOConfig`` the module of its one network, under its id."""
        return self.env_runner.module

    @property
    def sampler(self) -> BudgetSampler:
        """The budget sampler in use."""
        return self.env_runner.sampler_connector.sampler

    @property
    def parallel_env(self) -> ParallelEnv | MultiAgentEnv:
        """The environment itself, out of RLlib's wrappers."""
        env = environment_in(self.env_runner.env)
        return env.parallel_env if isinstance(env, ParallelEnvAdapter) else env

    @property
    def env_seconds(self) -> float:
        """Wall-clock seconds spent inside the ``ParallelEnv`` so far; NaN for another kind of environment."""
        return getattr(environment_in(self.env_runner.env), "seconds", math.nan)
