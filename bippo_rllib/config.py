"""``BippoConfig``: the RLlib configuration that builds runner, learner, policies and connectors."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from typing import Any

import numpy as np
from ray.rllib.algorithms.algorithm_config import NotProvided
from ray.rllib.connectors.connector_v2 import ConnectorV2
from ray.rllib.connectors.env_to_module import EnvToModulePipeline
from ray.rllib.core.rl_module.multi_rl_module import MultiRLModuleSpec
from ray.rllib.core.rl_module.rl_module import RLModuleSpec
from ray.rllib.env import INPUT_ENV_SINGLE_SPACES, INPUT_ENV_SPACES
from ray.rllib.policy.policy import PolicySpec
from ray.util.debug import log_once

from bippo_rllib.config_checks import check_bundles, check_settings, refuse_unsupported_settings
from bippo_rllib.learning.learner import BippoLearner
from bippo_rllib.learning.policy_trainer import BATCH_SIZE
from bippo_rllib.learning.ppo_update import PPOSettings
from bippo_rllib.policies.actor_critic import HIDDEN_SIZE
from bippo_rllib.policies.agents import PolicyOf, environment_in, policy_of, policy_spaces
from bippo_rllib.policies.client_policy import ClientPolicy
from bippo_rllib.policies.policy_bank import bank_spec
from bippo_rllib.runners.env_runner import BippoEnvRunner
from bippo_rllib.selection.connector import BudgetSamplerConnector
from bippo_rllib.selection.pipeline import find_connector, insert_scores, new_sampler_connector
from bippo_rllib.selection_settings import SelectionSettings


class BippoConfig(SelectionSettings):
    """Configuration of budget-aware independent PPO; defaults are the paper's.

    .. code-block:: python

        config = (
            BippoConfig()
            .environment(MyParallelEnv, env_config={"num_workers": 8})
            .info_keys(cost="cost", budget="budget")
            .selection(sampler="epsilon_greedy")
            .training(lr=1e-3)
        )
        algo = config.build_algo()
        result = algo.train()  # a step, and an update of each policy whose batch is full
    """

    def __init__(self, algo_class: type | None = None) -> None:
        if algo_class is None:
            from bippo_rllib.bippo import Bippo as algo_class  # which imports this module
        super().__init__(algo_class=algo_class)
        self.policy_batch_size = BATCH_SIZE
        self.hidden_size = HIDDEN_SIZE
        self.per_policy_metrics = False
        self.cost_key = "cost"
        self.budget_key = "budget"
        self.failed_key = "failed"
        self.dropped_key = "dropped"
        self.env_bundles: list[dict[str, float]] = []
        # PPO's, with the paper's values.
        self._set(**asdict(PPOSettings()))
        self.use_kl_loss = False
        self.minibatch_size = None
        self.shuffle_batch_per_epoch = False
        # One environment step per train(): a policy is updated before it acts again.
        self.train_batch_size_per_learner = 1
        self.train_batch_size = 1
        self.rollout_fragment_length = 1
        self.evaluation_duration = 1
        # One process: parallelism comes from Tune trials and from the environment.
        self.num_env_runners = 0
        self.num_learners = 0
        self.env_runner_cls = BippoEnvRunner
        # Env checking would reset the environment, which costs a real round.
        self.disable_env_checking = True
        self.normalize_actions = False
        self.clip_actions = False
        # By default one policy for each of the environment's agents, see get_multi_agent_setup.
        self.policies: dict[str, PolicySpec] = {}
        self.policy_mapping_fn = policy_of

    def get_evaluation_config_object(self) -> BippoConfig | None:
        """Overrides RLlib's to turn exploration off unless ``evaluation_config`` sets it."""
        config = super().get_evaluation_config_object()
        if config is not None and "explore" not in (self.evaluation_config or ()):
            config.explore = False
        return config

    def training(
        self,
        *,
        policy_batch_size: int = NotProvided,
        hidden_size: int = NotProvided,
        per_policy_metrics: bool = NotProvided,
        **kwargs: Any,
    ) -> BippoConfig:
        """Sets PPO's training settings and those of BIPPO.

        Args:
            policy_batch_size: A policy is updated as soon as its client has participated in this many steps.
            hidden_size: Hidden units of each actor and critic.
            per_policy_metrics: Also report losses and advantages of each updated policy under its id. The result then
                grows with the number of policies.
            **kwargs: PPO's: ``lr, gamma, lambda_, clip_param, num_epochs, vf_loss_coeff, vf_clip_param,
                entropy_coeff, grad_clip, use_critic``. ``validate`` refuses settings that BIPPO does not honour.
        """
        if "num_sgd_iter" in kwargs:  # RLlib's old name, for which -1 means "not given"
            kwargs["num_epochs"] = kwargs.pop("num_sgd_iter")
        super().training(**kwargs)
        return self._set(
            policy_batch_size=policy_batch_size,
            hidden_size=hidden_size,
            per_policy_metrics=per_policy_metrics,
        )

    def info_keys(
        self,
        *,
        cost: str = NotProvided,
        budget: str = NotProvided,
        failed: str = NotProvided,
        dropped: str = NotProvided,
    ) -> BippoConfig:
        """Sets the info keys under which the environment reports costs, the budget and what became of a step.

        Costs and budget may be in any unit, the same for both.

        Args:
            cost: Key of an agent's cost for the next step; ``cost`` by default.
            budget: Key of what all agents together may spend in the next step, the same number in every info;
                ``budget`` by default.
            failed: Key of a flag in the infos that a step returns: the agent participated, but its work was lost. The
                step is not learned from. Where the key is missing, nothing failed. ``failed`` by default.
            dropped: Key of a flag in the infos that a step returns: the agent was selected, but the environment did not
                let it participate. The step is not learned from. ``dropped`` by default.
        """
        return self._set(cost_key=cost, budget_key=budget, failed_key=failed, dropped_key=dropped)

    @property
    def not_learned_keys(self) -> tuple[str, str]:
        """Info keys of the flags that exclude a step from learning."""
        return self.failed_key, self.dropped_key

    def env_resources(self, *, bundles: Sequence[Mapping[str, float]]) -> BippoConfig:
        """Reserves resources in a Tune trial's placement group for Ray actors that the environment starts.

        Without it the actors wait for ever for resources that Tune has given to trials.

        Args:
            bundles: Resources of each actor, such as ``[{"CPU": 1, "GPU": 0.5}] * 2``; an actor lives in one bundle.

        Raises:
            ValueError: If a bundle is empty or an amount is not a number above 0.
        """
        check_bundles(bundles)
        return self._set(env_bundles=[dict(bundle) for bundle in bundles])

    @property
    def client_of(self) -> Callable[[Any], str]:
        """Maps an agent id to the client whose reports a prior records: the id of the agent's policy."""
        return policy_of if self.policy_mapping_fn is policy_of else PolicyOf(self.policy_mapping_fn)

    def validate(self) -> None:
        """Checks all settings, and refuses RLlib settings that BIPPO does not honour.

        Raises:
            ValueError: Naming the setting, its value and the remedy.
        """
        default = BippoConfig()
        refuse_unsupported_settings(self, default)
        check_settings(self, default)
        new_sampler_connector(self)
        log_once(f"{self.algo_class.__name__}_on_new_api_stack")  # RLlib would say how to leave it, which BIPPO cannot
        super().validate()

    def get_default_learner_class(self) -> type:
        """Returns ``BippoLearner``."""
        return BippoLearner

    def get_default_rl_module_spec(self) -> RLModuleSpec:
        """Returns the specification of a ``ClientPolicy``: an actor and a critic for one client."""
        return RLModuleSpec(module_class=ClientPolicy)

    def get_multi_rl_module_spec(
        self, *, env: Any = None, spaces: Any = None, policy_dict: Any = None, **kwargs: Any
    ) -> MultiRLModuleSpec:
        """Returns the specification of a ``PolicyBank`` for all policies; one for each would copy spaces N times."""
        policies = policy_dict or self.get_multi_agent_setup(env=env, spaces=spaces)[0]
        pairs = {p: (spec.observation_space, spec.action_space) for p, spec in policies.items()}
        seed = self.seed if self.seed is not None else int(np.random.SeedSequence().generate_state(1)[0])
        return self._multi_rl_module_spec(pairs, seed)

    def _multi_rl_module_spec(self, pairs: dict[str, tuple[Any, Any]], seed: int) -> MultiRLModuleSpec:
        return bank_spec(pairs, hidden_size=self.hidden_size, seed=seed)

    def get_multi_agent_setup(self, *, policies: Any = None, env: Any = None, spaces: Any = None, **kwargs: Any) -> Any:
        """Returns one policy per entry of the environment's ``possible_agents``, unless ``.multi_agent`` names them.

        All policies share this config; RLlib's method copies the whole config for each, O(N^2) in all.
        """
        if env is not None:
            pairs = policy_spaces(environment_in(env), self.policy_mapping_fn, policies or self.policies)
        else:
            pairs = {p: s for p, s in spaces.items() if p not in (INPUT_ENV_SPACES, INPUT_ENV_SINGLE_SPACES)}
        specs = {p: PolicySpec(None, *pair, self) for p, pair in pairs.items()}
        train = self.policies_to_train
        return specs, train if train is None or callable(train) else lambda policy_id, batch=None: policy_id in train

    def build_env_to_module_connector(self, env: Any = None, spaces: Any = None, device: Any = None) -> ConnectorV2:
        """Builds RLlib's pipeline for ``EpisodeEnvRunner``; ``BippoEnvRunner`` works on arrays and needs none."""
        if issubclass(self.env_runner_cls, BippoEnvRunner):
            return EnvToModulePipeline(env.single_observation_space, env.single_action_space, connectors=[])
        if not self.policies and env is not None:
            # In place, as Learner.add_module does: the config is frozen already.
            names = policy_spaces(environment_in(env), self.policy_mapping_fn)
            self.policies.update({policy_id: PolicySpec() for policy_id in names})
        return super().build_env_to_module_connector(env=env, spaces=spaces, device=device)

    def build_module_to_env_connector(self, env: Any = None, spaces: Any = None) -> ConnectorV2:
        """Builds the pipeline: the user's connectors, ranking or prior, and the budget sampler if it is not among them.

        RLlib's default connectors are there for ``EpisodeEnvRunner`` only; arrays do not need them.
        """
        on_arrays = issubclass(self.env_runner_cls, BippoEnvRunner)
        with_defaults = self.add_default_connectors_to_module_to_env_pipeline
        config = self
        if on_arrays and with_defaults:
            config = self.copy(copy_frozen=False)
            config.add_default_connectors_to_module_to_env_pipeline = False
        pipeline = SelectionSettings.build_module_to_env_connector(config, env=env, spaces=spaces)
        if with_defaults and find_connector(pipeline, BudgetSamplerConnector) is None:
            sampler = new_sampler_connector(self, self.client_of)
            pipeline.append(sampler) if on_arrays else pipeline.insert_before("NormalizeAndClipActions", sampler)
        insert_scores(pipeline, self, self.client_of)
        return pipeline
