"""``BippoConfig`` and ``Bippo``: where each piece plugs into RLlib."""

from __future__ import annotations

from typing import Any

import numpy as np
from pettingzoo import ParallelEnv
from ray.rllib.algorithms.algorithm_config import AlgorithmConfig, NotProvided
from ray.rllib.algorithms.ppo.ppo import PPO, PPOConfig
from ray.rllib.connectors.connector_v2 import ConnectorV2
from ray.rllib.core.rl_module.multi_rl_module import MultiRLModuleSpec
from ray.rllib.core.rl_module.rl_module import RLModuleSpec
from ray.rllib.env.multi_agent_env import MultiAgentEnv
from ray.rllib.policy.policy import PolicySpec
from ray.rllib.utils.metrics import (
    ENV_RUNNER_RESULTS,
    ENV_RUNNER_SAMPLING_TIMER,
    LEARNER_RESULTS,
    LEARNER_UPDATE_TIMER,
    TIMERS,
)

from bippo_rllib.agent_policies import policies_in, policy_of, spaces_by_policy
from bippo_rllib.connector import BudgetSamplerConnector
from bippo_rllib.env_runner import BippoEnvRunner
from bippo_rllib.parallel_env import FACTORY_KEY, KEYWORDS_KEY, ParallelEnvAdapter, makes_parallel_env
from bippo_rllib.policy_bank import ClientPolicy, PolicyBank
from bippo_rllib.sampler import BudgetSampler
from bippo_rllib.unsupported import refuse_unsupported_settings


class BippoConfig(PPOConfig):
    """Configuration of budget-aware independent PPO; defaults are the paper's.

    .. code-block:: python

        config = (
            BippoConfig()
            .environment(MyParallelEnv, env_config={"num_workers": 8})
            .budget(cost_key="cost", budget_key="budget")
            .training(sampler="epsilon_greedy", lr=1e-3)
        )
        algo = config.build_algo()
        result = algo.train()  # one environment step, one update of the policies whose batch is full
    """

    def __init__(self, algo_class: type | None = None) -> None:
        super().__init__(algo_class=algo_class or Bippo)
        # Ours.
        self.sampler = "epsilon_greedy"
        self.epsilon = 1.0
        self.epsilon_decay = 0.9
        self.epsilon_min = 0.05
        self.policy_batch_size = 2
        self.hidden_size = 128
        self.cost_key = "cost"
        self.budget_key = "budget"
        # PPO's, with the paper's values.
        self.lr = 1e-3
        self.num_epochs = 8
        self.gamma = 0.9
        self.lambda_ = 0.8
        self.clip_param = 0.2
        self.vf_clip_param = None
        self.use_kl_loss = False
        self.minibatch_size = None
        self.shuffle_batch_per_epoch = False
        # One environment step per train(): a policy is updated before it acts again.
        self.train_batch_size_per_learner = 1
        self.rollout_fragment_length = 1
        # One process: parallelism comes from Tune trials and from the environment.
        self.num_env_runners = 0
        self.num_learners = 0
        self.env_runner_cls = BippoEnvRunner
        # Env checking would reset the environment, which costs a real round.
        self.disable_env_checking = True
        self.normalize_actions = False
        self.clip_actions = False
        # Filled in from the environment's agents unless .multi_agent() says otherwise.
        self.policies: dict[str, PolicySpec] = {}
        self.policy_mapping_fn = policy_of

    def environment(self, env: Any = NotProvided, **kwargs: Any) -> BippoConfig:
        """As RLlib's, and ``env`` may also be a PettingZoo ``ParallelEnv`` class or a factory of one.

        Args:
            env: ``ParallelEnv`` class, function that returns a ``ParallelEnv`` (``env_config`` becomes its keyword
                arguments), or whatever RLlib takes: a ``MultiAgentEnv`` class or a registered name.
            **kwargs: As in RLlib.
        """
        if makes_parallel_env(env):
            keywords = kwargs.get("env_config", {})
            kwargs["env_config"] = {FACTORY_KEY: env, KEYWORDS_KEY: dict(keywords)}
            env = ParallelEnvAdapter
        return super().environment(env, **kwargs)

    def training(
        self,
        *,
        sampler: str = NotProvided,
        epsilon: float = NotProvided,
        epsilon_decay: float = NotProvided,
        epsilon_min: float = NotProvided,
        policy_batch_size: int = NotProvided,
        hidden_size: int = NotProvided,
        **kwargs: Any,
    ) -> BippoConfig:
        """As PPO's, and:

        Args:
            sampler: ``epsilon_greedy`` (BIPPO), ``stochastic`` (IPPO), ``greedy`` or ``random``.
            epsilon: Initial exploration rate of ``epsilon_greedy``.
            epsilon_decay: Its factor per step.
            epsilon_min: Its lower end.
            policy_batch_size: A policy is updated as soon as its client took part in this many steps.
            hidden_size: Hidden units of each actor and critic.
            **kwargs: PPO's: ``lr, gamma, lambda_, clip_param, num_epochs, vf_loss_coeff, vf_clip_param,
                entropy_coeff, grad_clip``. Settings that would not be honoured are refused in ``validate``.
        """
        super().training(**kwargs)
        ours = {
            "sampler": sampler,
            "epsilon": epsilon,
            "epsilon_decay": epsilon_decay,
            "epsilon_min": epsilon_min,
            "policy_batch_size": policy_batch_size,
            "hidden_size": hidden_size,
        }
        for name, value in ours.items():
            if value is not NotProvided:
                setattr(self, name, value)
        return self

    def budget(self, *, cost_key: str = NotProvided, budget_key: str = NotProvided) -> BippoConfig:
        """Names the info keys that hold what acting costs and what may be spent; the unit is the environment's.

        Args:
            cost_key: Key of an agent's cost for the next step.
            budget_key: Key of what all agents together may spend in the next step, the same in every info.
        """
        if cost_key is not NotProvided:
            self.cost_key = cost_key
        if budget_key is not NotProvided:
            self.budget_key = budget_key
        return self

    def validate(self) -> None:
        """Checks our settings and refuses RLlib settings that BIPPO would not honour.

        Raises:
            ValueError: Naming the setting, its value and the remedy.
        """
        super().validate()
        if not self.in_evaluation:
            refuse_unsupported_settings(self)
        self._new_sampler_connector()
        for name in ("policy_batch_size", "hidden_size", "num_epochs"):
            value = getattr(self, name)
            if not isinstance(value, int | np.integer) or value < 1:
                self._value_error(f"{name} is {value!r}; it must be an integer of at least 1")

    def get_default_learner_class(self) -> type:
        """``BippoLearner``."""
        from bippo_rllib.learner import BippoLearner

        return BippoLearner

    def get_default_rl_module_spec(self) -> RLModuleSpec:
        """``ClientPolicy``, an actor and a critic for one client."""
        return RLModuleSpec(module_class=ClientPolicy, model_config=self._policy_model_config())

    def get_multi_rl_module_spec(self, **kwargs: Any) -> MultiRLModuleSpec:
        """One ``ClientPolicy`` per policy, stacked in a ``PolicyBank``."""
        spec = super().get_multi_rl_module_spec(**kwargs)
        spec.multi_rl_module_class = PolicyBank
        spec.inference_only = False
        for policy_id, policy_spec in spec.rl_module_specs.items():
            policy_spec.inference_only = False
            policy_spec.model_config = {**self._policy_model_config(), "policy_id": policy_id}
        return spec

    def get_multi_agent_setup(self, *, policies: Any = None, env: Any = None, spaces: Any = None, **kwargs: Any) -> Any:
        """One policy per entry of the environment's ``possible_agents``, unless ``.multi_agent`` names them.

        Every policy shares this config; the stock method copies the whole config for each, O(N^2) in all.
        """
        policy_ids = list(policies or self.policies or policies_in(env, spaces))
        agent_spaces = spaces_by_policy(self.policy_mapping_fn, env, spaces, policy_ids, self._added_policies())
        specs = {p: PolicySpec(None, *agent_spaces[p], self) for p in policy_ids}
        to_train = self.policies_to_train
        if to_train is not None and not callable(to_train):
            return specs, lambda policy_id, batch=None: policy_id in to_train
        return specs, to_train

    def build_env_to_module_connector(self, env: Any = None, spaces: Any = None, device: Any = None) -> ConnectorV2:
        """The stock pipeline, once the environment has told its agents."""
        if not self.policies:
            # In place, as Learner.add_module does it: this config is frozen by now.
            self.policies.update({policy_id: PolicySpec() for policy_id in policies_in(env, spaces)})
        return super().build_env_to_module_connector(env=env, spaces=spaces, device=device)

    def build_module_to_env_connector(self, env: Any = None, spaces: Any = None) -> ConnectorV2:
        """The stock pipeline with the budget sampler after the user's own pieces, unless one of these is it."""
        pipeline = super().build_module_to_env_connector(env=env, spaces=spaces)
        has_sampler = any(isinstance(piece, BudgetSamplerConnector) for piece in pipeline.connectors)
        if self.add_default_connectors_to_module_to_env_pipeline and not has_sampler:
            pipeline.insert_before("NormalizeAndClipActions", self._new_sampler_connector())
        return pipeline

    def _added_policies(self) -> dict[str, RLModuleSpec]:
        """Policies added at run time: ``Algorithm.add_module`` leaves their specs in the config."""
        return self._rl_module_spec.rl_module_specs if self._rl_module_spec is not None else {}

    def _new_sampler_connector(self) -> BudgetSamplerConnector:
        return BudgetSamplerConnector(
            strategy=self.sampler,
            epsilon=self.epsilon,
            epsilon_decay=self.epsilon_decay,
            epsilon_min=self.epsilon_min,
            seed=None if self.seed is None else [self.seed, *b"budget sampler"],
            cost_key=self.cost_key,
            budget_key=self.budget_key,
        )

    def _policy_model_config(self) -> dict[str, Any]:
        seed = self.seed if self.seed is not None else int(np.random.SeedSequence().generate_state(1)[0])
        return {"hidden_size": self.hidden_size, "seed": seed}


class Bippo(PPO):
    """Budget-aware independent PPO. One ``train()`` is one environment step."""

    @classmethod
    def get_default_config(cls) -> BippoConfig:
        """A fresh ``BippoConfig``."""
        return BippoConfig()

    def setup(self, config: AlgorithmConfig) -> None:
        """As PPO's; env runner and learner then share one policy bank, so there are no weights to sync."""
        super().setup(config)
        self.env_runner.module = self.learner_group._learner.module

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

    def add_module(self, module_id: str, module_spec: RLModuleSpec | None = None, **kwargs: Any) -> MultiRLModuleSpec:
        """Adds a policy; the others keep their weights, moments and buffers bit for bit.

        Args:
            module_id: Its id.
            module_spec: Left out, it is built like the others.
            **kwargs: As in RLlib.
        """
        if module_spec is None:
            like = next(iter(self.bank.values()))
            module_spec = RLModuleSpec(
                module_class=ClientPolicy,
                observation_space=like.observation_space,
                action_space=like.action_space,
                model_config={**like.model_config, "policy_id": module_id},
            )
        return super().add_module(module_id, module_spec, **{**kwargs, "add_to_env_runners": False})

    def remove_module(self, module_id: str, **kwargs: Any) -> Any:
        """Removes a policy that no live agent uses. The running episode goes on; RLlib's own method resets it."""
        return super().remove_module(module_id, **{**kwargs, "remove_from_env_runners": False})

    @property
    def bank(self) -> PolicyBank:
        """All policies."""
        return self.env_runner.module

    @property
    def sampler(self) -> BudgetSampler:
        """The budget sampler in use."""
        return self.env_runner.sampler_connector.sampler

    @property
    def parallel_env(self) -> ParallelEnv | MultiAgentEnv:
        """The environment itself, out of RLlib's wrappers."""
        env = self.env_runner.env.envs[0].unwrapped
        return env.parallel_env if isinstance(env, ParallelEnvAdapter) else env

    @property
    def env_seconds(self) -> float:
        """Wall-clock seconds spent inside the ``ParallelEnv`` so far."""
        return self.env_runner.env.envs[0].unwrapped.seconds
