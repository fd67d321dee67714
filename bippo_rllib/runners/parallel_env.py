"""PettingZoo ``ParallelEnv`` -> RLlib ``MultiAgentEnv``."""

from __future__ import annotations

import copyreg
import functools
import inspect
import time
from collections.abc import Callable, Mapping
from typing import Any

import gymnasium as gym
from pettingzoo import ParallelEnv
from ray.rllib.env.multi_agent_env import MultiAgentEnv


class ParallelEnvAdapter(MultiAgentEnv):
    """Runs a PettingZoo ``ParallelEnv`` under RLlib.

    RLlib's own ``ParallelPettingZooEnv`` resets the environment in its constructor, knows only the agents of that
    first reset, orders them by set iteration (different in every process) and reports the end of an episode per agent,
    which RLlib turns from a truncation into a termination. This one resets when asked, keeps the environment's agent
    order, and reports the common end as ``__all__`` only.

    Attributes:
        parallel_env: The wrapped environment.
        seconds: Wall-clock seconds spent in its ``reset`` and ``step`` so far.
    """

    def __init__(self, parallel_env: ParallelEnv) -> None:
        self.parallel_env = parallel_env
        super().__init__()
        self.seconds = 0.0
        self._last: tuple[dict, dict] = ({}, {})

    @property
    def agents(self) -> list[str]:
        """Live agents."""
        return list(self.parallel_env.agents)

    @agents.setter
    def agents(self, value: list[str]) -> None:
        """RLlib's base class assigns an empty list; the environment is the only source."""

    @property
    def possible_agents(self) -> list[str]:
        """All agents known so far; grows where the environment's list does."""
        return list(self.parallel_env.possible_agents)

    @possible_agents.setter
    def possible_agents(self, value: list[str]) -> None:
        """As for ``agents``."""

    @property
    def observation_spaces(self) -> dict[str, gym.Space]:
        """Observation space of each of ``possible_agents``: O(N), so ask ``get_observation_space`` for a single one."""
        return {agent: self.parallel_env.observation_space(agent) for agent in self.parallel_env.possible_agents}

    @property
    def action_spaces(self) -> dict[str, gym.Space]:
        """Action space of each of ``possible_agents``, likewise."""
        return {agent: self.parallel_env.action_space(agent) for agent in self.parallel_env.possible_agents}

    def get_observation_space(self, agent_id: str) -> gym.Space:
        """Observation space of one agent, known beforehand or not."""
        return self.parallel_env.observation_space(agent_id)

    def get_action_space(self, agent_id: str) -> gym.Space:
        """Action space of one agent, likewise."""
        return self.parallel_env.action_space(agent_id)

    def reset(self, *, seed: int | None = None, options: dict | None = None) -> tuple[dict, dict]:
        """Starts an episode: observations and infos of all live agents."""
        start = time.perf_counter()
        self._last = self.parallel_env.reset(seed=seed, options=options)
        self.seconds += time.perf_counter() - start
        return self._last

    def step(self, action_dict: Mapping[str, Any]) -> tuple[dict, dict, dict, dict, dict]:
        """One step; an agent that leaves while others stay is reported as such, the common end as ``__all__``."""
        start = time.perf_counter()
        observations, rewards, terminations, truncations, infos = self.parallel_env.step(dict(action_dict))
        self.seconds += time.perf_counter() - start
        self._last = (observations, infos)
        if self.parallel_env.agents:
            terminateds = {**terminations, "__all__": False}
            truncateds = {**truncations, "__all__": False}
        else:
            terminated = bool(terminations) and all(terminations.values())
            terminateds, truncateds = {"__all__": terminated}, {"__all__": not terminated}
        return observations, rewards, terminateds, truncateds, infos

    def get_state(self) -> dict[str, Any] | None:
        """Everything needed to resume during an episode; None if the environment has no ``get_state``/``set_state``."""
        if not all(hasattr(self.parallel_env, name) for name in ("get_state", "set_state")):
            return None
        # Without final observations of agents that left: nobody will act on these.
        observations, infos = ({agent: entries[agent] for agent in self.agents} for entries in self._last)
        return {"parallel_env": self.parallel_env.get_state(), "observations": observations, "infos": infos}

    def set_state(self, state: Mapping[str, Any]) -> tuple[dict, dict]:
        """Restores a ``state`` of ``get_state``; returns the observations and infos of that moment."""
        self.parallel_env.set_state(state["parallel_env"])
        self._last = (state["observations"], state["infos"])
        return self._last

    def close(self) -> None:
        """Closes the wrapped environment."""
        self.parallel_env.close()


def adapted(env: Any) -> Any:
    """``env``, in an adapter if it is a ``ParallelEnv``."""
    return ParallelEnvAdapter(env) if isinstance(env, ParallelEnv) else env


class _MakerKind(type):
    """Class of all ``EnvMaker``s, by which ``pickle`` recognises them."""


class EnvMaker(metaclass=_MakerKind):
    """What RLlib takes for an environment class: called with an ``env_config``, it returns what ``factory`` makes.

    Classes of this kind are pickled without code of ours, so that checkpoints outlive a Python version.
    """

    factory: Callable[..., Any]

    def __new__(cls, config: Mapping[str, Any]) -> Any:
        """The environment for an ``env_config``."""
        return adapted(cls.factory(**config))


def rllib_env(env: Any) -> Any:
    """``env`` as RLlib takes it: a ``ParallelEnv`` class or a factory of one becomes an ``EnvMaker``.

    That has the name of what it makes and is always the same one, and ``env_config`` holds the keyword arguments and
    nothing else, so that both survive RLlib's and Tune's copies, dicts and names of trials. A registered name, an
    environment class of RLlib's and what this function returned stay as they are.
    """
    if not callable(env) or (inspect.isclass(env) and not issubclass(env, ParallelEnv)):
        return env
    return _maker(env)


@functools.cache
def _maker(factory: Callable[..., Any]) -> type:
    return _MakerKind(getattr(factory, "__name__", "parallel_env"), (EnvMaker,), {"factory": staticmethod(factory)})


def _pickled(maker: Any) -> Any:
    """Returns what ``pickle`` keeps: it looks classes up by name, and those of factories are in no module."""
    return maker.__name__ if maker is EnvMaker else (_maker, (maker.factory,))


copyreg.pickle(_MakerKind, _pickled)


def registered_env(name: str, creator: Callable[[Mapping[str, Any]], Any]) -> type:
    """Likewise for what ``creator`` was registered for, which takes the ``env_config`` itself."""
    return type(name, (), {"__new__": lambda cls, config: adapted(creator(config))})
