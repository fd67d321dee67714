"""Small PettingZoo environments with a shared budget that have nothing to do with federated learning."""

from __future__ import annotations

import weakref

import gymnasium as gym
import numpy as np
from pettingzoo import ParallelEnv


class Workers(ParallelEnv):
    """N workers, costs 1 and 2 in turn; everybody's reward is the number of workers minus 2.

    Stateful and seeded: observations carry the step and a number drawn from the environment's generator.
    """

    metadata = {"name": "workers"}  # noqa: RUF012

    def __init__(
        self,
        num_workers: int = 4,
        rounds: int = 5,
        obs_dim: int = 3,
        leaves_at: int | None = None,
        budget: float = 3.0,
    ) -> None:
        digits = max(2, len(str(num_workers - 1)))
        self.possible_agents = [f"worker_{i:0{digits}d}" for i in range(num_workers)]
        self.agents: list[str] = []
        self._rounds, self._obs_dim, self._leaves_at, self._budget = rounds, obs_dim, leaves_at, budget
        self._space, self._actions = gym.spaces.Box(-10, 10, (obs_dim,), np.float32), gym.spaces.Discrete(2)
        self.resets = 0
        self._rng: np.random.Generator | None = None

    def observation_space(self, agent):
        return self._space

    def action_space(self, agent):
        return self._actions

    def reset(self, seed=None, options=None):
        self.resets += 1
        self.agents, self.time = list(self.possible_agents), 0
        if seed is not None or self._rng is None:
            self._rng = np.random.default_rng(seed)
        return self._observations(), self._infos()

    def step(self, actions):
        self.time += 1
        self.last_actions = dict(actions)
        acting = list(self.agents)
        reward = float(sum(actions.values()) - 2)
        observations, infos = self._observations(), self._infos()
        over = self.time >= self._rounds
        gone = {a: over or (a == "worker_00" and self.time == self._leaves_at) for a in acting}
        self.agents = [a for a in acting if not gone[a]]
        return observations, dict.fromkeys(acting, reward), dict.fromkeys(acting, False), gone, infos

    def get_state(self):
        return {"agents": list(self.agents), "time": self.time, "rng": self._rng.bit_generator.state}

    def set_state(self, state):
        self.agents, self.time = list(state["agents"]), state["time"]
        self._rng = np.random.default_rng()
        self._rng.bit_generator.state = state["rng"]

    def _observations(self):
        return {a: np.full(self._obs_dim, self._rng.random() + self.time / 10, np.float32) for a in self.agents}

    def _infos(self):
        return {a: {"cost": 1.0 + int(a[-1]) % 2, "budget": self._budget} for a in self.agents}


class Bandit(ParallelEnv):
    """One good client that costs the whole budget; the others are harmful, and two of them fit.

    The reward is +1 if the good one trained, else -1. With ``rewards`` given, these are given in order whatever
    anybody does.
    """

    metadata = {"name": "bandit"}  # noqa: RUF012

    def __init__(self, num_clients: int = 8, rewards: list[float] | None = None) -> None:
        self.possible_agents = [f"client_{i:03d}" for i in range(num_clients)]
        self.agents: list[str] = []
        self._rewards = rewards
        self._space, self._actions = gym.spaces.Box(0, 1, (5,), np.float32), gym.spaces.Discrete(2)

    def observation_space(self, agent):
        return self._space

    def action_space(self, agent):
        return self._actions

    def reset(self, seed=None, options=None):
        self.agents, self.rewards = list(self.possible_agents), []
        return self._observations(dict.fromkeys(self.agents, 1)), self._infos()

    def step(self, actions):
        reward = 1.0 if actions["client_000"] else -1.0
        if self._rewards is not None:
            reward = self._rewards[len(self.rewards)]
        self.rewards.append(reward)
        no = dict.fromkeys(self.agents, False)
        return self._observations(actions), dict.fromkeys(self.agents, reward), no, dict(no), self._infos()

    def _observations(self, trained):
        return {a: np.array([0.5, 1.0, 0.5, 0.5, trained[a]], np.float32) for a in self.agents}

    def _infos(self):
        return {a: {"cost": 2.0 if a == "client_000" else 1.0, "budget": 2.0} for a in self.agents}


class AgentId(str):
    """An id that weak references can follow."""


class Passing(ParallelEnv):
    """Four seats, of which two get another agent in every step, and a budget of 1 and 3 in turn; acting costs 1."""

    metadata = {"name": "passing"}  # noqa: RUF012
    possible_agents = ("seat_0", "seat_1", "seat_2", "seat_3")

    def __init__(self) -> None:
        self.agents: list[str] = []
        self.ids: weakref.WeakSet[AgentId] = weakref.WeakSet()  #: of those that anybody still knows
        self._space, self._actions = gym.spaces.Box(0, 1, (2,), np.float32), gym.spaces.Discrete(2)

    def observation_space(self, agent):
        return self._space

    def action_space(self, agent):
        return self._actions

    def reset(self, seed=None, options=None):
        self.time = 0
        self.agents = [self._agent(seat) for seat in range(4)]
        return self._observations(self.agents), self._infos()

    def step(self, actions):
        self.num_acted, self.budget_spent_from = sum(actions.values()), self._budget
        self.time += 1
        acted, first = self.agents, 2 * (self.time % 2)
        self.agents = [self._agent(i) if i in (first, first + 1) else agent for i, agent in enumerate(acted)]
        left = {agent: agent not in self.agents for agent in acted}
        seen = self._observations(dict.fromkeys([*acted, *self.agents]))
        return seen, dict.fromkeys(acted, 1.0), dict.fromkeys(acted, False), left, self._infos()

    @property
    def _budget(self):
        return (1.0, 3.0)[self.time % 2]

    def _agent(self, seat):
        agent = AgentId(f"seat_{seat}#{self.time}")
        self.ids.add(agent)
        return agent

    def _observations(self, agents):
        return {agent: np.full(2, 0.5, np.float32) for agent in agents}

    def _infos(self):
        return {agent: {"cost": 1.0, "budget": self._budget} for agent in self.agents}
