"""The central baselines PPO and FPPO: BIPPO's environment, sampler and rows, with one network for all clients."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ray.rllib.algorithms.algorithm_config import NotProvided
from ray.rllib.core.rl_module.multi_rl_module import MultiRLModule, MultiRLModuleSpec
from ray.rllib.core.rl_module.rl_module import RLModuleSpec
from ray.rllib.policy.policy import PolicySpec

from bippo_rllib.baselines.central.env_runner import CentralEnvRunner
from bippo_rllib.baselines.central.learner import CentralLearner
from bippo_rllib.baselines.central.policy import CentralPolicy
from bippo_rllib.config import BippoConfig
from bippo_rllib.policies.agents import CENTRAL, policy_of
from bippo_rllib.setting_error import SettingError


def central_policy_of(agent_id: Any, episode: Any = None, **kwargs: Any) -> str:
    """Returns the central policy for every agent."""
    return CENTRAL


class CentralPPOConfig(BippoConfig):
    """Configuration of the central baselines, which need to know all clients at once.

    With the stochastic sampler it is the paper's PPO, with ``selection(sampler="greedy")`` its FPPO. The batch counts
    rounds: the network is updated as soon as ``policy_batch_size`` rounds with a participant are buffered.
    """

    def __init__(self, algo_class: type | None = None) -> None:
        super().__init__(algo_class)
        self.sampler = "stochastic"
        self.shared_observations = 1
        self.env_runner_cls = CentralEnvRunner
        self.policies = {CENTRAL: PolicySpec()}
        self.policy_mapping_fn = central_policy_of

    def training(self, *, shared_observations: int = NotProvided, **kwargs: Any) -> CentralPPOConfig:
        """Sets ``BippoConfig.training``'s settings and one more.

        Args:
            shared_observations: Leading entries of an observation that are the same for all agents; the network sees
                them once. FederatedRounds has one, the mean accuracy.
            **kwargs: See ``BippoConfig.training``.
        """
        super().training(**kwargs)
        return self._set(shared_observations=shared_observations)

    @property
    def client_of(self) -> Callable[[Any], str]:
        """Maps an agent id to its client, since all agents have one policy."""
        return policy_of

    def validate(self) -> None:
        """Overrides ``BippoConfig.validate`` to require the central policy and a central env runner.

        Raises:
            SettingError: Naming the setting, its value and the remedy.
        """
        super().validate()
        if set(self.policies) != {CENTRAL} or self.policy_mapping_fn is not central_policy_of:
            raise SettingError("policies", sorted(self.policies), f"CentralPPOConfig has the one policy {CENTRAL!r}")
        if not issubclass(self.env_runner_cls, CentralEnvRunner):
            needs = "the central network sees all agents in one pass, which needs CentralEnvRunner"
            raise SettingError("env_runner_cls", self.env_runner_cls.__name__, needs)
        shared = self.shared_observations
        if isinstance(shared, bool) or not isinstance(shared, int) or shared < 0:
            raise SettingError("shared_observations", shared, "it must be an integer of at least 0")

    def get_default_learner_class(self) -> type:
        """Returns ``CentralLearner``."""
        return CentralLearner

    def get_default_rl_module_spec(self) -> RLModuleSpec:
        """Returns the specification of a ``CentralPolicy``."""
        return RLModuleSpec(module_class=CentralPolicy)

    def _multi_rl_module_spec(self, pairs: dict[str, tuple[Any, Any]], seed: int) -> MultiRLModuleSpec:
        observation_space, action_space = pairs[CENTRAL]
        spec = RLModuleSpec(
            module_class=CentralPolicy,
            observation_space=observation_space,
            action_space=action_space,
            model_config={
                "hidden_size": self.hidden_size,
                "seed": seed,
                "shared_observations": self.shared_observations,
            },
        )
        return MultiRLModuleSpec(multi_rl_module_class=MultiRLModule, rl_module_specs={CENTRAL: spec})
