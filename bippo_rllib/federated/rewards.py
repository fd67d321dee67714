"""The reward that policies are trained on, by the formulas of the environment."""

from __future__ import annotations

import importlib.util
import math
from dataclasses import dataclass
from types import ModuleType
from typing import Any

#: Names in ``envs.rules.reward.REWARDS``: of a round's change of accuracy, of a participant's own effect, and all.
ACCURACY_CHANGE, OWN_EFFECT = "accuracy_change", ("leave_one_out", "shapley")
REWARD_NAMES = (ACCURACY_CHANGE, "accuracy_target", *OWN_EFFECT)


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

    name: str = ACCURACY_CHANGE
    base: float = 64.0
    target: float = 0.8

    def __post_init__(self) -> None:
        if self.name not in REWARD_NAMES:
            raise ValueError(f"reward is {self.name!r}; choose one of {', '.join(REWARD_NAMES)}")
        if not 0.0 < self.base < math.inf:
            raise ValueError(f"reward base is {self.base}; it must be a finite number above 0")
        if not 0.0 <= self.target <= 1.0:
            raise ValueError(f"reward target is {self.target}; it must lie in [0, 1]")

    def of_team(self, previous: float, current: float) -> float:
        """Returns what all that trained get for a round that took the mean accuracy from ``previous`` to ``current``.

        Where policies were trained on their own effects, it is ``accuracy_change`` with the same base.
        """
        name = ACCURACY_CHANGE if self.name in OWN_EFFECT else self.name
        return formulas().TEAM_REWARDS[name](previous, current, self.base, self.target)

    def of_effect(self, effect: float) -> float:
        """Returns what a participant gets for its own effect on the mean accuracy, in [-1, 1]."""
        return formulas().effect_reward(effect, self.base)


def reward_of(environment: Any) -> Reward | None:
    """Returns the reward of an environment whose ``config`` has one, as ``FederatedRounds`` has; None of any other."""
    config = getattr(environment, "config", None)
    try:
        return Reward(config.reward, float(config.reward_base), float(config.reward_target))  # type: ignore[union-attr]
    except (AttributeError, TypeError, ValueError):
        return None


def formulas() -> ModuleType:
    """Imports ``envs.rules.reward``, in which environment and selector have their rewards in common.

    It is imported here and not at the top, since only who reports accuracies or effects needs it, and other projects
    often have an ``envs`` of their own.

    Raises:
        ImportError: If another package of that name is found first; in one line.
    """
    try:
        from envs.rules import reward
    except ImportError as error:
        found = importlib.util.find_spec("envs")
        raise ImportError(
            f"{found.origin if found else 'another package envs'} hides the package envs of bippo-rllib, which makes "
            f"rewards of accuracies and effects ({error}); rename it, or report rewards"
        ) from error
    return reward
