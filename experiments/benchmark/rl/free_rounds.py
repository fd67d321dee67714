"""An environment whose rounds cost nothing, so that what is measured is reinforcement learning alone."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import gymnasium as gym
import numpy as np
from pettingzoo import ParallelEnv

OBS_DIM = 5
#: Rounds per update of a client's policy, whose batch is two participations.
PAIR = 2


class FreeRounds(ParallelEnv):
    """Every client costs 1 and the budget is ``num_participants``, so that exactly so many take part in every round.

    Returns the same dicts of observations, rewards and infos whatever the clients do.

    Args:
        num_clients: Agents, ``client_00000`` and so on.
        num_participants: How many fit the budget.

    Attributes:
        participations: Clients that took part, summed over all rounds.
    """

    metadata = {"name": "free_rounds"}  # noqa: RUF012

    def __init__(self, num_clients: int, num_participants: int) -> None:
        self.possible_agents = [f"client_{client:05d}" for client in range(num_clients)]
        self.agents: list[str] = []
        self.participations = 0
        self._space = gym.spaces.Box(0.0, 1.0, (OBS_DIM,), np.float32)
        self._actions: gym.Space = gym.spaces.Discrete(2)
        values = np.random.default_rng(0).random((num_clients, OBS_DIM), dtype=np.float32)
        self._observations = dict(zip(self.possible_agents, values, strict=True))
        budget = float(num_participants)
        self._infos = {
            agent: {"cost": 1.0, "budget": budget, "accuracy": float(seen[0])}
            for agent, seen in self._observations.items()
        }
        self._rewards = dict.fromkeys(self.possible_agents, 1.0)
        self._no = dict.fromkeys(self.possible_agents, False)

    def observation_space(self, agent: str) -> gym.Space:
        """``Box(0, 1, (5,))``."""
        return self._space

    def action_space(self, agent: str) -> gym.Space:
        """``Discrete(2)``, 1 = participate."""
        return self._actions

    def reset(self, seed: int | None = None, options: dict | None = None) -> tuple[dict, dict]:
        """Starts an episode, which has no end."""
        self.agents = list(self.possible_agents)
        return self._observations, self._infos

    def step(self, actions: Mapping[str, Any]) -> tuple[dict, dict, dict, dict, dict]:
        """One round: counts who takes part."""
        self.participations += int(sum(actions.values()))
        return self._observations, self._rewards, self._no, self._no, self._infos
