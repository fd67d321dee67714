"""What a round was worth, by the formulas of the environment. Pure functions; rewards are in no unit."""

from __future__ import annotations

import math

#: Lambda in the paper.
BASE = 64.0


def accuracy_reward(previous: float, current: float) -> float:
    """The paper's reward of the team, ``sign(d) * 64**|d|`` with ``d = current - previous``; 0 when ``d`` is 0.

    Args:
        previous: Mean accuracy before the round.
        current: Mean accuracy of the same clients after it.
    """
    change = current - previous
    return 0.0 if change == 0.0 else math.copysign(BASE ** abs(change), change)


def effect_reward(effect: float) -> float:
    """A participant's leave-one-out reward, ``sign(d) * (64**|d| - 1)``.

    Args:
        effect: ``d``, the mean accuracy of the round's model minus that of the model averaged without it.
    """
    return math.copysign(1.0, effect) * (BASE ** abs(effect) - 1.0)
