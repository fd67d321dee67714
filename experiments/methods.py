"""Method name -> the BippoConfig it starts from.

A new method is one entry of METHODS: a name, a line of description and a function that makes its config.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from bippo_rllib.method_settings import METHOD_SETTINGS

if TYPE_CHECKING:
    from bippo_rllib import BippoConfig


@dataclass(frozen=True)
class Method:
    """A way to select clients."""

    name: str  #: As in ``--methods``.
    description: str  #: One line.
    make_config: Callable[[], BippoConfig]  #: Makes the configuration that it starts from.
    learns: bool = True  #: False where no policy is trained: training settings but ``settings`` change nothing.
    #: Keywords of ``envs.parallel_env`` that it cannot do without; they must leave the FL as it is.
    federation: Mapping[str, Any] = field(default_factory=dict)
    settings: tuple[str, ...] = ()  #: Settings that this method has and others lack.
    uses_client_reports: bool = True  #: False where selection looks at none, so that probing is not charged.
    privileged: str = ""  #: Information about clients that it needs and no real client gives away; marked in reports.
    reference: bool = False  #: True for a bound to compare methods with; reports set it apart.

    def with_requirements(self, federation: Mapping[str, Any]) -> dict[str, Any]:
        """``federation`` with what the method needs, and without ``probing_epochs`` if it uses no client reports.

        Raises:
            ValueError: Where ``federation`` contradicts what is needed.
        """
        for key, needed in self.federation.items():
            if federation.get(key, needed) != needed:
                raise ValueError(f"{self.name} needs env.{key}={needed}, but it is set to {federation[key]}")
        asked = dict(federation)
        if not self.uses_client_reports:
            asked.pop("probing_epochs", None)
        return {**asked, **self.federation}

    def settings_taken(self, settings: Mapping[str, Any]) -> dict[str, Any]:
        """Those of ``settings`` that are not another method's own."""
        foreign = {key for method in METHODS.values() for key in method.settings} - set(self.settings)
        return {key: value for key, value in settings.items() if key not in foreign}


def _configured(name: str) -> BippoConfig:
    """Returns the configuration of a method by its ``MethodSettings``."""
    from bippo_rllib import BippoConfig
    from bippo_rllib.selection.update_matching import UpdateMatching

    settings = METHOD_SETTINGS[name]
    config = BippoConfig().selection(**settings.selection).training(**settings.training)
    if settings.update_profile_size:
        config.selection(set_score=UpdateMatching)
    return config if settings.learns else config.multi_agent(policies_to_train=[])


def _central(sampler: str) -> BippoConfig:
    from bippo_rllib.baselines.central.config import CentralPPOConfig

    return CentralPPOConfig().selection(sampler=sampler)


def _published_power_of_choice() -> BippoConfig:
    return _configured("poc").selection(candidates=6)


def _oort() -> BippoConfig:
    from experiments.selectors import OortConfig

    return OortConfig()


def _oracle() -> BippoConfig:
    from experiments.selectors import OracleConfig

    return OracleConfig()


def _published(config_class: str) -> BippoConfig:
    import experiments.baselines

    return getattr(experiments.baselines, config_class)()


_LOSS: Mapping[str, Any] = MappingProxyType({"with_loss": True})
_SHAPLEY: Mapping[str, Any] = MappingProxyType({"reward": "shapley"})
_MATCHING: Mapping[str, Any] = MappingProxyType(
    {"reward": METHOD_SETTINGS["bippo-s"].reward, "update_profile_size": METHOD_SETTINGS["bippo-s"].update_profile_size}
)


def _by_settings(name: str, description: str, **more: Any) -> Method:
    """Returns a method that is all in its ``MethodSettings``."""
    return Method(name, description, partial(_configured, name), learns=METHOD_SETTINGS[name].learns, **more)


METHODS: Mapping[str, Method] = MappingProxyType(
    {
        method.name: method
        for method in (
            _by_settings("bippo", "independent PPO per client, epsilon-greedy budget sampler (the paper's method)"),
            _by_settings("ippo", "the same policies, clients drawn in proportion to their suggestions"),
            _by_settings("bippo-greedy", "the same policies, always the highest suggestions; to compare samplers"),
            Method(
                "ppo",
                "one central network over all clients, clients drawn in proportion to its softmax",
                partial(_central, "stochastic"),
            ),
            Method("fppo", "the same network, always the highest suggestions", partial(_central, "greedy")),
            _by_settings(
                "bippo-r",
                "ours: independent PPO paid for each client's own effect, a representativeness prior, drawn by odds",
                federation=MappingProxyType({"reward": METHOD_SETTINGS["bippo-r"].reward}),
            ),
            _by_settings(
                "bippo-s",
                "ours: bippo-r with Shapley values, each pick by how well the updates of all picked match everybody's",
                federation=_MATCHING,
            ),
            _by_settings("rep", "ours: the representativeness prior of bippo-r alone; nothing is learned"),
            _by_settings(
                "ippo-odds",
                "ippo, but drawn in proportion to the odds p / (1 - p) of the suggestions; for the ablation",
            ),
            _by_settings(
                "fedavg",
                "random clients until the budget is spent; nothing is learned",
                uses_client_reports=False,
            ),
            _by_settings(
                "poc",
                "Power-of-Choice: the highest local losses first",
                federation=_LOSS,
            ),
            _by_settings("poca", "the lowest local accuracies first"),
            Method(
                "pocd",
                "Power-of-Choice as published: the highest losses among candidates drawn by data size",
                _published_power_of_choice,
                learns=False,
                federation=_LOSS,
                settings=("candidates",),
            ),
            Method(
                "oort",
                "Oort: utility of a client's data and cost of its device, with exploration (Lai et al., OSDI 2021)",
                _oort,
                learns=False,
                federation=_LOSS,
                uses_client_reports=False,  # participants know their own loss from training
            ),
            Method(
                "cyclic",
                "a random order, walked through under the budget: everybody has a turn before anybody has a second",
                partial(_published, "CyclicConfig"),
                learns=False,
                uses_client_reports=False,
            ),
            Method(
                "fedcbs",
                "Fed-CBS: clients whose labels together are mixed as all clients'; given their label counts",
                partial(_published, "FedCBSConfig"),
                learns=False,
                federation=MappingProxyType({"with_label_counts": True}),
                uses_client_reports=False,
                privileged="label counts",
            ),
            Method(
                "bandit",
                "bippo-s with the running mean of each client's Shapley values in the place of its policy",
                partial(_published, "BanditConfig"),
                learns=False,
                federation=_MATCHING,
            ),
            Method(
                "greedyfed",
                "GreedyFed: everybody once, then those with the highest mean Shapley value (Singhal et al. 2024)",
                partial(_published, "GreedyFedConfig"),
                learns=False,
                federation=_SHAPLEY,
            ),
            Method(
                "hics",
                "HiCS-FL: clusters by label entropy, estimated from updates of the output layer (Chen, Vikalo 2024)",
                partial(_published, "HiCSConfig"),
                learns=False,
                federation=MappingProxyType({"with_output_bias": True}),
                uses_client_reports=False,
            ),
            Method(
                "fedcor",
                "FedCor: a Gaussian process over changes of all clients' losses (Tang et al., CVPR 2022)",
                partial(_published, "FedCorConfig"),
                learns=False,
                federation=_LOSS,
            ),
            Method(
                "normfilter",
                "random clients but those with conspicuously long updates (after Wilhelm et al. 2026)",
                partial(_published, "NormFilterConfig"),
                learns=False,
                federation=MappingProxyType({"with_update_norm": True}),
                settings=("two_sided",),
                uses_client_reports=False,
            ),
            Method(
                "oracle",
                "random among clients known to be good (--set oracle_clients=0,1,2): no method, a bound for them",
                _oracle,
                learns=False,
                settings=("oracle_clients",),
                uses_client_reports=False,
                reference=True,
            ),
        )
    }
)


def privileged_information(name: str) -> str:
    """Returns what the method of that name knows of clients that no real client gives away; empty if nothing."""
    return METHODS[name].privileged if name in METHODS else ""


def is_reference(name: str) -> bool:
    """Whether the rows of that name are a bound to compare methods with, and not those of a method."""
    return name in METHODS and METHODS[name].reference
