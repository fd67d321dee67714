"""Method name -> the BippoConfig it starts from.

A new method is one entry of METHODS: a name, a line of description and a function that makes its config.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from bippo_rllib import BippoConfig


@dataclass(frozen=True)
class Method:
    """A way to select clients.

    `learns` is False where no policy is trained, so training settings change nothing but those named in `settings`.
    `federation` holds the keywords of `envs.parallel_env` that the method cannot do without; they must leave the FL
    itself as it is.
    """

    name: str
    description: str
    make_config: Callable[[], BippoConfig]
    learns: bool = True
    federation: Mapping[str, Any] = field(default_factory=dict)
    settings: tuple[str, ...] = ()

    def needs_met(self, federation: Mapping[str, Any]) -> dict[str, Any]:
        """`federation` with what the method needs. ValueError where `federation` says otherwise."""
        for key, needed in self.federation.items():
            if federation.get(key, needed) != needed:
                raise ValueError(f"{self.name} needs env.{key}={needed}, but it is set to {federation[key]}")
        return {**federation, **self.federation}


def _independent(sampler: str) -> BippoConfig:
    from bippo_rllib import BippoConfig

    return BippoConfig().training(sampler=sampler)


def _central(sampler: str) -> BippoConfig:
    from bippo_rllib import CentralPPOConfig

    return CentralPPOConfig().training(sampler=sampler)


def _fedavg() -> BippoConfig:
    return _independent("random").multi_agent(policies_to_train=[])


def _greedy() -> BippoConfig:
    return _independent("greedy").multi_agent(policies_to_train=[])


def _poc() -> BippoConfig:
    return _greedy().rank_by("loss")


def _poca() -> BippoConfig:
    return _greedy().rank_by("accuracy", highest=False)


def _pocd() -> BippoConfig:
    config = _greedy()
    return config.rank_by("loss", candidates=config.candidates)


_LOSS: Mapping[str, Any] = MappingProxyType({"with_loss": True})


METHODS: Mapping[str, Method] = MappingProxyType(
    {
        method.name: method
        for method in (
            Method(
                "bippo",
                "independent PPO per client, epsilon-greedy budget sampler (the paper's method)",
                partial(_independent, "epsilon_greedy"),
            ),
            Method(
                "ippo",
                "the same policies, clients drawn in proportion to their suggestions",
                partial(_independent, "stochastic"),
            ),
            Method(
                "ppo",
                "one central network over all clients, clients drawn in proportion to its softmax",
                partial(_central, "stochastic"),
            ),
            Method("fppo", "the same network, always the highest suggestions", partial(_central, "greedy")),
            Method("fedavg", "random clients until the budget is spent; nothing is learned", _fedavg, learns=False),
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
