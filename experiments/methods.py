"""Method name -> how it completes a BippoConfig.

A new method is one entry of METHODS: a name, a line of description and a function from BippoConfig to BippoConfig.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from bippo_rllib import BippoConfig


@dataclass(frozen=True)
class Method:
    """A way to select clients. `learns` is False where no policy is trained, so training settings change nothing."""

    name: str
    description: str
    configure: Callable[[BippoConfig], BippoConfig]
    learns: bool = True


def _bippo(config: BippoConfig) -> BippoConfig:
    return config.training(sampler="epsilon_greedy")


def _ippo(config: BippoConfig) -> BippoConfig:
    return config.training(sampler="stochastic")


def _fedavg(config: BippoConfig) -> BippoConfig:
    return config.training(sampler="random").multi_agent(policies_to_train=[])


METHODS: Mapping[str, Method] = MappingProxyType(
    {
        method.name: method
        for method in (
            Method("bippo", "independent PPO per client, epsilon-greedy budget sampler (the paper's method)", _bippo),
            Method("ippo", "the same policies, clients drawn in proportion to their suggestions", _ippo),
            Method("fedavg", "random clients until the budget is spent; nothing is learned", _fedavg, learns=False),
        )
    }
)
