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
    itself as it is. `asks` is False where selection looks at nothing that clients tell, so probing is not charged.
    `reference` is True for a bound to compare methods with, which is no method itself: reports set it apart.
    """

    name: str
    description: str
    make_config: Callable[[], BippoConfig]
    learns: bool = True
    federation: Mapping[str, Any] = field(default_factory=dict)
    settings: tuple[str, ...] = ()
    asks: bool = True
    reference: bool = False

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


def _independent(sampler: str) -> BippoConfig:
    from bippo_rllib import BippoConfig

    return BippoConfig().training(sampler=sampler)


def _central(sampler: str) -> BippoConfig:
    from bippo_rllib import CentralPPOConfig

    return CentralPPOConfig().training(sampler=sampler)


def _fedavg() -> BippoConfig:
    return _independent("random").multi_agent(policies_to_train=[])


def _ranked(score_key: str, highest: bool = True, draws_candidates: bool = False) -> BippoConfig:
    config = _independent("greedy").multi_agent(policies_to_train=[])
    return config.rank_by(score_key, highest=highest, candidates=config.candidates if draws_candidates else None)


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
                "bippo-greedy",
                "the same policies, always the highest suggestions; to compare samplers",
                partial(_independent, "greedy"),
            ),
            Method(
                "ppo",
                "one central network over all clients, clients drawn in proportion to its softmax",
                partial(_central, "stochastic"),
            ),
            Method("fppo", "the same network, always the highest suggestions", partial(_central, "greedy")),
            Method(
                "fedavg",
                "random clients until the budget is spent; nothing is learned",
                _fedavg,
                learns=False,
                asks=False,
            ),
            Method(
                "poc",
                "Power-of-Choice: the highest local losses first",
                partial(_ranked, "loss"),
                learns=False,
                federation=_LOSS,
            ),
            Method(
                "poca", "the lowest local accuracies first", partial(_ranked, "accuracy", highest=False), learns=False
            ),
            Method(
                "pocd",
                "Power-of-Choice as published: the highest losses among candidates drawn by data size",
                partial(_ranked, "loss", draws_candidates=True),
                learns=False,
                federation=_LOSS,
                settings=("candidates",),
            ),
        )
    }
)


def is_reference(name: str) -> bool:
    """Whether the rows of that name are a bound to compare methods with, and not those of a method."""
    return name in METHODS and METHODS[name].reference
