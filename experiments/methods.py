"""Method name -> how it completes a BippoConfig.

A new method is one entry of METHODS: a name, a line of description and a function from BippoConfig to BippoConfig.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from bippo_rllib import BippoConfig


@dataclass(frozen=True)
class Method:
    """A way to select clients.

    `learns` is False where no policy is trained, so training settings change nothing but those named in `settings`.
    `federation` holds the keywords of `envs.parallel_env` that the method cannot do without; they must leave the FL
    itself as it is. `asks` is False where selection looks at nothing that clients tell, so probing is not charged.
    """

    name: str
    description: str
    configure: Callable[[BippoConfig], BippoConfig]
    learns: bool = True
    federation: Mapping[str, Any] = field(default_factory=dict)
    settings: tuple[str, ...] = ()
    asks: bool = True

    def needs_met(self, federation: Mapping[str, Any]) -> dict[str, Any]:
        """`federation` with what the method needs, and without `probing_epochs` if it asks clients for nothing.

        Raises:
            ValueError: Where `federation` contradicts what is needed.
        """
        for key, needed in self.federation.items():
            if federation.get(key, needed) != needed:
                raise ValueError(f"{self.name} needs env.{key}={needed}, but it is set to {federation[key]}")
        charged = {key: value for key, value in federation.items() if self.asks or key != "probing_epochs"}
        return {**charged, **self.federation}


def _bippo(config: BippoConfig) -> BippoConfig:
    return config.training(sampler="epsilon_greedy")


def _ippo(config: BippoConfig) -> BippoConfig:
    return config.training(sampler="stochastic")


def _fedavg(config: BippoConfig) -> BippoConfig:
    return config.training(sampler="random").multi_agent(policies_to_train=[])


def _greedy(config: BippoConfig) -> BippoConfig:
    return config.training(sampler="greedy").multi_agent(policies_to_train=[])


def _poc(config: BippoConfig) -> BippoConfig:
    return _greedy(config).rank_by("loss")


def _poca(config: BippoConfig) -> BippoConfig:
    return _greedy(config).rank_by("accuracy", highest=False)


def _pocd(config: BippoConfig) -> BippoConfig:
    return _greedy(config).rank_by("loss", candidates=config.candidates)


_LOSS: Mapping[str, Any] = MappingProxyType({"with_loss": True})


METHODS: Mapping[str, Method] = MappingProxyType(
    {
        method.name: method
        for method in (
            Method("bippo", "independent PPO per client, epsilon-greedy budget sampler (the paper's method)", _bippo),
            Method("ippo", "the same policies, clients drawn in proportion to their suggestions", _ippo),
            Method(
                "fedavg", "random clients until the budget is spent; nothing is learned", _fedavg, False, asks=False
            ),
            Method("poc", "Power-of-Choice: the highest local losses first", _poc, learns=False, federation=_LOSS),
            Method("poca", "the lowest local accuracies first", _poca, learns=False),
            Method(
                "pocd",
                "Power-of-Choice as published: the highest losses among candidates drawn by data size",
                _pocd,
                learns=False,
                federation=_LOSS,
                settings=("candidates",),
            ),
        )
    }
)
