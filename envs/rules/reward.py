"""Reward functions of one FL round, or of one participant of it, from mean accuracies in [0, 1].

``FederationConfig(reward=...)`` takes the names in ``REWARDS``: those of ``TEAM_REWARDS``, functions
``(previous, current, base, target) -> reward`` of the mean accuracies before and after the round, or one of
``OWN_EFFECT``, where ``effect_reward`` rewards each participant for its own effect.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np

#: Each participant is rewarded for its own effect: difference rewards (Wolpert and Tumer 2001), or Shapley values.
LEAVE_ONE_OUT = "leave_one_out"
SHAPLEY = "shapley"
OWN_EFFECT = (LEAVE_ONE_OUT, SHAPLEY)

ACCURACY_TARGET = "accuracy_target"

#: Changes of a mean accuracy below this are rounding: with n clients of m test samples each, a real one is at least
#: 1 / (n * m), and two float64 means of the same number differ by less than 1e-15.
SMALLEST_CHANGE = 1e-9


def accuracy_reward(previous: float, current: float, base: float = 64.0) -> float:
    """Computes the paper's reward, ``sign(d) * base**|d|`` with ``d = current - previous``; 0 when ``d`` is 0.

    From 0.50 to 0.52 with base 64: ``64**0.02 = 1.0867``; from 0.52 to 0.50: ``-1.0867``. The reward jumps from -1 to
    1 at 0, where rounding must not decide: below ``SMALLEST_CHANGE`` nothing has changed.

    Args:
        previous: Mean accuracy before the round, over the clients that are live before and after it.
        current: Mean accuracy of the same clients after the round.
        base: Lambda in the paper, above 0.
    """
    _check(previous=previous, current=current, base=base)
    change = current - previous
    return 0.0 if abs(change) < SMALLEST_CHANGE else math.copysign(base ** abs(change), change)


def effect_reward(effect: float, base: float = 64.0) -> float:
    """Computes a participant's reward for its own effect ``d``, ``sign(d) * (base**|d| - 1)``.

    From 0.50 without it to 0.52 with it, base 64: ``64**0.02 - 1 = 0.0867``; from 0.52 to 0.50: ``-0.0867``. Unlike
    ``accuracy_reward`` it has no jump at 0: not having trained gives 0, which makes it an advantage as it is.

    Args:
        effect: What it changed of the mean accuracy, in [-1, 1].
        base: Lambda in the paper, above 0.

    Raises:
        ValueError: If one of them is out of range.
    """
    _check(base=base)
    if not abs(effect) <= 1.0:
        raise ValueError(f"effect is {effect}; it must lie in [-1, 1]")
    return math.copysign(1.0, effect) * (base ** abs(effect) - 1.0)


def accuracy_target_reward(current: float, target: float, base: float = 64.0) -> float:
    """Computes FAVOR's reward (Wang et al. 2020), ``base**(current - target) - 1``, negative below the target."""
    _check(current=current, target=target, base=base)
    return base ** (current - target) - 1.0


@dataclass(frozen=True)
class RoundOutcome:
    """What a user's own reward, ``reward="MODULE:NAME"``, is computed from."""

    before: np.ndarray  #: ``float64[N]`` accuracies before the round, of the clients live before and after it.
    after: np.ndarray  #: ``float64[N]`` accuracies of the same clients after the round.
    clients: tuple[int, ...]  #: ``[N]`` their ids, ascending.
    trained: tuple[int, ...]  #: Ids of the clients that trained, ascending; some may have left.
    energy_j: float  #: Joules that the round spent.
    budget_j: float  #: Joules that it was allowed to spend.


TEAM_REWARDS: dict[str, Callable[[float, float, float, float], float]] = {
    "accuracy_change": lambda previous, current, base, target: accuracy_reward(previous, current, base),
    ACCURACY_TARGET: lambda previous, current, base, target: accuracy_target_reward(current, target, base),
}

#: Names that a federation takes.
REWARDS = (*TEAM_REWARDS, *OWN_EFFECT)


def _check(*, base: float, **accuracies: float) -> None:
    for name, value in accuracies.items():
        if not 0.0 <= value <= 1.0:
            raise ValueError(f"{name} accuracy is {value}; it must lie in [0, 1]")
    if not (math.isfinite(base) and base > 0.0):
        raise ValueError(f"base is {base}; it must be a finite number above 0")
