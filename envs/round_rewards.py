"""The rewards of a round, by the name that a federation gives them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np

from envs.config import FederationConfig
from envs.imports import import_function, is_import, own_code
from envs.rules.reward import OWN_EFFECT, TEAM_REWARDS, RoundOutcome


class RoundRewards:
    """Computes the team's reward and the clients'.

    Args:
        config: The federation.
    """

    def __init__(self, config: FederationConfig) -> None:
        self._config = config
        self._custom = import_function("reward", config.reward) if is_import(config.reward) else None

    def compute(
        self, outcome: RoundOutcome | None, live: Sequence[int], own: Mapping[int, float]
    ) -> tuple[float, tuple[float, ...]]:
        """Returns the round's reward, and those of the clients live in it.

        Args:
            outcome: Of the round; None if no client trained or none stays, so that the team's reward is 0.
            live: The clients.
            own: Rewards of the clients that trained, where each has one of its own.

        Raises:
            ValueError: If a user's function raises an error or returns no finite number.
        """
        if self._config.reward in OWN_EFFECT:
            return sum(own.values()) / max(1, len(own)), tuple(own.get(client, 0.0) for client in live)
        reward = self._team_reward(outcome) if outcome else 0.0
        return reward, (reward,) * len(live)

    def _team_reward(self, outcome: RoundOutcome) -> float:
        config = self._config
        if self._custom is None:
            before, after = float(np.mean(outcome.before)), float(np.mean(outcome.after))
            return TEAM_REWARDS[config.reward](before, after, config.reward_base, config.reward_target)
        with own_code(f"reward {config.reward}"):
            reward = float(self._custom(outcome))
        if not math.isfinite(reward):
            raise ValueError(f"reward {config.reward} returned {reward}; it must return a finite number")
        return reward
