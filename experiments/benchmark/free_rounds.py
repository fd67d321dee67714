"""An environment whose rounds cost nothing, so that what is measured is reinforcement learning alone."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

import gymnasium as gym
import numpy as np
from pettingzoo import ParallelEnv

OBS_DIM = 5
PROFILE_SIZE = 64


class FreeRounds(ParallelEnv):
    """Every client costs 1 and the budget is ``num_trained``, so that exactly so many take part in every round.

    Infos are those of ``envs.FederatedRounds`` that prior and set term read: all clients report an update profile at
    first, participants in the round after. Nothing else changes; ``participations`` counts them over all rounds, and
    ``cpu_seconds`` what the rounds take all the same.
    """

    metadata = {"name": "free_rounds"}  # noqa: RUF012

    def __init__(self, num_clients: int, num_trained: int) -> None:
        self.possible_agents = [f"client_{client:05d}" for client in range(num_clients)]
        self.agents: list[str] = []
        self.participations, self.cpu_seconds = 0, 0.0
        self._space = gym.spaces.Box(0.0, 1.0, (OBS_DIM,), np.float32)
        self._actions: gym.Space = gym.spaces.Discrete(2)
        rng = np.random.default_rng(0)
        seen = rng.random((num_clients, OBS_DIM), dtype=np.float32)
        profiles = rng.standard_normal((num_clients, PROFILE_SIZE), dtype=np.float32)
        same = {"cost": 1.0, "budget": float(num_trained), "num_samples": 50}
        infos = [{**same, "accuracy": float(values[0]), "update_profile": None} for values in seen]
        trained = [{**info, "update_profile": profile} for info, profile in zip(infos, profiles, strict=True)]
        self._observations, self._infos, self._infos_of_trained = (
            dict(zip(self.possible_agents, entries, strict=True)) for entries in (seen, infos, trained)
        )
        self._rewards, self._no = (dict.fromkeys(self.possible_agents, value) for value in (1.0, False))

    def observation_space(self, agent: str) -> gym.Space:
        """Returns ``Box(0, 1, (5,))``."""
        return self._space

    def action_space(self, agent: str) -> gym.Space:
        """Returns ``Discrete(2)``, 1 = participate."""
        return self._actions

    def reset(self, seed: int | None = None, options: dict | None = None) -> tuple[dict, dict]:
        """Starts an episode, which has no end."""
        self.agents = list(self.possible_agents)
        return self._observations, self._infos_of_trained

    def step(self, actions: Mapping[str, Any]) -> tuple[dict, dict, dict, dict, dict]:
        """Runs one round and counts its participants."""
        start = time.process_time()
        trained = {agent: self._infos_of_trained[agent] for agent, action in actions.items() if action}
        self.participations += len(trained)
        infos = {**self._infos, **trained}
        self.cpu_seconds += time.process_time() - start
        return self._observations, self._rewards, self._no, self._no, infos
