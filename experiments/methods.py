"""Method name -> the BippoConfig it starts from.

A new method is one entry of METHODS: a name, a line of description and a function that makes its config.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from bippo_rllib import BippoConfig


@dataclass(frozen=True)
class Method:
    """A way to select clients. `learns` is False where no policy is trained, so training settings change nothing."""

    name: str
    description: str
    make_config: Callable[[], BippoConfig]
    learns: bool = True


def _independent(sampler: str) -> BippoConfig:
    from bippo_rllib import BippoConfig

    return BippoConfig().training(sampler=sampler)


def _central(sampler: str) -> BippoConfig:
    from bippo_rllib import CentralPPOConfig

    return CentralPPOConfig().training(sampler=sampler)


def _fedavg() -> BippoConfig:
    return _independent("random").multi_agent(policies_to_train=[])


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
        )
    }
)
