"""The reward that policies are trained on, by the formulas of the environment."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from bippo_rllib.federated.environment import shared


@dataclass(frozen=True)
class Reward:
    """A reward of ``FederatedRounds``, as its fields ``reward``, ``reward_base`` and ``reward_target`` set it.

    Args:
        name: ``accuracy_change`` (the paper's), ``accuracy_target``, ``leave_one_out`` or ``shapley``.
        base: Lambda of any reward, above 0.
        target: Target accuracy of ``accuracy_target``, in [0, 1].

    Raises:
        ValueError: If one is something else; the message names it.
    """

    name: str = "accuracy_change"
    base: float = 64.0
    target: float = 0.8

    def __post_init__(self) -> None:
        if not is_reward(self.name):
            raise ValueError(f"reward is {self.name!r}; choose one of {', '.join(_formulas().REWARDS)}")
        if not 0.0 < self.base < math.inf:
            raise ValueError(f"reward base is {self.base}; it must be a finite number above 0")
        if not 0.0 <= self.target <= 1.0:
            raise ValueError(f"reward target is {self.target}; it must lie in [0, 1]")

    @property
    def is_of_effects(self) -> bool:
        """Whether each participant is rewarded for its effect on the mean accuracy."""
        return self.name in _formulas().OWN_EFFECT

    def of_team(self, previous: float, current: float) -> float:
        """Computes the reward of all participants of a round from the mean accuracies before and after it.

        Where policies were trained on effects, it is ``accuracy_change`` with the same base.

        Args:
            previous: Mean accuracy before the round, in [0, 1].
            current: Mean accuracy of the same clients after it.
        """
        name = "accuracy_change" if self.is_of_effects else self.name
        return _formulas().TEAM_REWARDS[name](previous, current, self.base, self.target)

    def of_effect(self, effect: float) -> float:
        """Computes the reward of a participant from its own effect.

        Args:
            effect: What it changed of the mean accuracy, in [-1, 1].

        Raises:
            ValueError: If ``effect`` is out of range.
        """
        return _formulas().effect_reward(effect, self.base)


def is_reward(name: Any) -> bool:
    """Whether ``name`` is that of a reward of the environment."""
    return isinstance(name, str) and name in _formulas().REWARDS


def reward_of(environment: Any) -> Reward | None:
    """Returns the reward of an environment whose ``config`` has one, as ``FederatedRounds`` has; None of any other."""
    config = getattr(environment, "config", None)
    try:
        return Reward(config.reward, float(config.reward_base), float(config.reward_target))  # type: ignore[union-attr]
    except (AttributeError, TypeError, ValueError):
        return None


def _formulas() -> Any:
    return shared("rules.reward")
