"""Method name -> the BippoConfig it starts from.

A new method is one entry of METHODS, whose config is made from ``METHOD_SETTINGS`` or by
``experiments.connector_methods``.
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
    title: str  #: As papers print the name.
    description: str  #: One line.
    make_config: Callable[[], BippoConfig]  #: Makes the configuration that it starts from.
    learns: bool = True  #: False if no policy is trained, so that only ``settings`` change anything.
    #: Keywords of ``envs.parallel_env`` that the method needs; they must not change the FL.
    federation: Mapping[str, Any] = field(default_factory=dict)
    settings: tuple[str, ...] = ()  #: Settings that only this method has.
    uses_client_reports: bool = True  #: False if selection reads no reports, so that probing is not charged.
    privileged: str = ""  #: Information about clients that it needs and no real client gives away; marked in reports.
    reference: bool = False  #: True for a bound to compare methods with; reports set it apart.

    def with_requirements(self, federation: Mapping[str, Any]) -> dict[str, Any]:
        """Returns ``federation`` with what the method needs, without ``probing_epochs`` if it uses no client reports.

        Raises:
            ValueError: If ``federation`` contradicts a setting that the method needs.
        """
        for key, needed in self.federation.items():
            if federation.get(key, needed) != needed:
                raise ValueError(
                    f"{self.name} needs env.{key}={needed}, but it is set to {federation[key]}; leave it out, "
                    "or name other methods, such as --methods bippo fedavg"
                )
        left_out = () if self.uses_client_reports else ("probing_epochs",)
        return {**{key: value for key, value in federation.items() if key not in left_out}, **self.federation}

    def settings_taken(self, settings: Mapping[str, Any]) -> dict[str, Any]:
        """Returns ``settings`` without those that only other methods have."""
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


def _connector(config_class: str) -> BippoConfig:
    import experiments.connector_methods

    return getattr(experiments.connector_methods, config_class)()


def _rule(name: str) -> BippoConfig:
    from experiments.connector_methods import RuleConfig

    return RuleConfig().follow(name)


_LOSS: Mapping[str, Any] = MappingProxyType({"with_loss": True})
_SHAPLEY: Mapping[str, Any] = MappingProxyType({"reward": "shapley"})
_MATCHING: Mapping[str, Any] = MappingProxyType(
    {"reward": METHOD_SETTINGS["bippo-s"].reward, "update_profile_size": METHOD_SETTINGS["bippo-s"].update_profile_size}
)


def _by_settings(name: str, title: str, description: str, **more: Any) -> Method:
    """Returns a method that is all in its ``MethodSettings``."""
    return Method(name, title, description, partial(_configured, name), learns=METHOD_SETTINGS[name].learns, **more)


def _by_connector(name: str, title: str, config_class: str, description: str, **more: Any) -> Method:
    """Returns a method of ``experiments.connector_methods``."""
    return Method(name, title, description, partial(_connector, config_class), learns=False, **more)


def _by_rule(name: str, title: str, description: str, **more: Any) -> Method:
    """Returns a method of ``experiments.connector_methods.RULES``."""
    return Method(name, title, description, partial(_rule, name), learns=False, **more)


METHODS: Mapping[str, Method] = MappingProxyType(
    {
        method.name: method
        for method in (
            _by_settings(
                "bippo", "BIPPO", "independent PPO per client, epsilon-greedy budget sampler (the paper's method)"
            ),
            _by_settings("ippo", "IPPO", "the same policies, clients drawn in proportion to their suggestions"),
            _by_settings(
                "bippo-greedy", "BIPPO greedy", "the same policies, always the highest suggestions; to compare samplers"
            ),
            Method(
                "ppo",
                "PPO",
                "one central network over all clients, clients drawn in proportion to its softmax",
                partial(_central, "stochastic"),
            ),
            Method("fppo", "FPPO", "the same network, always the highest suggestions", partial(_central, "greedy")),
            _by_settings(
                "bippo-r",
                "BIPPO-R",
                "ours: independent PPO rewarded for each client's own effect, representativeness prior, drawn by odds",
                federation=MappingProxyType({"reward": METHOD_SETTINGS["bippo-r"].reward}),
            ),
            _by_settings(
                "bippo-s",
                "BIPPO-S",
                "ours: bippo-r with Shapley values, each pick by how well the updates of all picked match all clients'",
                federation=_MATCHING,
            ),
            _by_settings("rep", "Rep", "ours: the representativeness prior of bippo-r alone; nothing is learned"),
            _by_settings(
                "ippo-odds",
                "IPPO odds",
                "ippo, but drawn in proportion to the odds p / (1 - p) of the suggestions; for the ablation",
            ),
            _by_settings(
                "fedavg",
                "FedAvg",
                "random clients until the budget is spent; nothing is learned",
                uses_client_reports=False,
            ),
            _by_settings("poc", "PoC", "Power-of-Choice: the highest local losses first", federation=_LOSS),
            _by_settings("poca", "PoCA", "the lowest local accuracies first"),
            Method(
                "pocd",
                "PoC-d",
                "Power-of-Choice as published: the highest losses among candidates drawn by data size",
                _published_power_of_choice,
                learns=False,
                federation=_LOSS,
                settings=("candidates",),
            ),
            _by_rule(
                "oort",
                "Oort",
                "Oort: utility of a client's data and cost of its device, with exploration (Lai et al., OSDI 2021)",
                federation=_LOSS,
                uses_client_reports=False,  # participants know their own loss from training
            ),
            _by_rule(
                "cyclic",
                "Cyclic",
                "a random order, followed under the budget: all clients have a turn before any has a second",
                uses_client_reports=False,
            ),
            _by_connector(
                "fedcbs",
                "Fed-CBS",
                "FedCBSConfig",
                "Fed-CBS: clients whose labels together are mixed as all clients'; given their label counts",
                federation=MappingProxyType({"with_label_counts": True}),
                uses_client_reports=False,
                privileged="label counts",
            ),
            _by_connector(
                "bandit",
                "Bandit",
                "BanditConfig",
                "bippo-s with the running mean of each client's Shapley values instead of its policy",
                federation=_MATCHING,
            ),
            _by_rule(
                "greedyfed",
                "GreedyFed",
                "GreedyFed: all clients once, then those with the highest mean Shapley value (Singhal et al. 2024)",
                federation=_SHAPLEY,
            ),
            _by_rule(
                "hics",
                "HiCS-FL",
                "HiCS-FL: clusters by label entropy, estimated from updates of the output layer (Chen, Vikalo 2024)",
                federation=MappingProxyType({"with_output_bias": True}),
                uses_client_reports=False,
            ),
            _by_rule(
                "fedcor",
                "FedCor",
                "FedCor: a Gaussian process over changes of all clients' losses (Tang et al., CVPR 2022)",
                federation=_LOSS,
            ),
            _by_connector(
                "normfilter",
                "Norm filter",
                "NormFilterConfig",
                "random clients but those with conspicuously long updates (after Wilhelm et al. 2026)",
                federation=MappingProxyType({"with_update_norm": True}),
                settings=("two_sided",),
                uses_client_reports=False,
            ),
            _by_connector(
                "oracle",
                "oracle",
                "OracleConfig",
                "random among clients known to be good (--set oracle_clients=0,1,2): no method, a bound for them",
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
    """Returns whether rows of that name are a bound to compare methods with, not a method."""
    return name in METHODS and METHODS[name].reference
