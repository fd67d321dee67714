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
    which RLlib turns from a truncation into a termination. This one resets only in ``reset``, keeps the environment's
    agent order, and reports the common end as ``__all__`` only.

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
        """Live agents; none before the first reset, even where the environment has no such list until then."""
        return list(getattr(self.parallel_env, "agents", ()))

    @agents.setter
    def agents(self, value: list[str]) -> None:
        """Ignores the empty list that RLlib's base class assigns."""

    @property
    def possible_agents(self) -> list[str]:
        """All agents known so far; grows where the environment's list does."""
        return list(self.parallel_env.possible_agents)

    @possible_agents.setter
    def possible_agents(self, value: list[str]) -> None:
        """Ignores the empty list that RLlib's base class assigns."""

    @property
    def observation_spaces(self) -> dict[str, gym.Space]:
        """Observation space of each of ``possible_agents``, in O(N); ``get_observation_space`` returns a single one."""
        return {agent: self.parallel_env.observation_space(agent) for agent in self.parallel_env.possible_agents}

    @property
    def action_spaces(self) -> dict[str, gym.Space]:
        """Action space of each of ``possible_agents``, in O(N)."""
        return {agent: self.parallel_env.action_space(agent) for agent in self.parallel_env.possible_agents}

    def get_observation_space(self, agent_id: str) -> gym.Space:
        """Returns the observation space of one agent, which need not be among ``possible_agents``."""
        return self.parallel_env.observation_space(agent_id)

    def get_action_space(self, agent_id: str) -> gym.Space:
        """Returns the action space of one agent, which need not be among ``possible_agents``."""
        return self.parallel_env.action_space(agent_id)

    def reset(self, *, seed: int | None = None, options: dict | None = None) -> tuple[dict, dict]:
        """Starts an episode; returns observations and infos of all live agents."""
        start = time.perf_counter()
        self._last = self.parallel_env.reset(seed=seed, options=options)
        self.seconds += time.perf_counter() - start
        return self._last

    def step(self, action_dict: Mapping[str, Any]) -> tuple[dict, dict, dict, dict, dict]:
        """Steps the environment; an agent that leaves while others stay is reported alone, the end as ``__all__``."""
        start = time.perf_counter()
        observations, rewards, terminations, truncations, infos = self.parallel_env.step(dict(action_dict))
        self.seconds += time.perf_counter() - start
        before, self._last = self._last[0], (observations, infos)
        if self.parallel_env.agents:
            terminateds = {**terminations, "__all__": False}
            truncateds = {**truncations, "__all__": False}
        else:
            terminated = bool(terminations) and all(terminations.values())
            # One that was terminated needs no last observation, which the common end would ask of it.
            unseen = [a for a, ended in terminations.items() if ended and a in before and a not in observations]
            observations = {**observations, **{agent: before[agent] for agent in unseen}}
            terminateds, truncateds = {"__all__": terminated}, {"__all__": not terminated}
        return observations, rewards, terminateds, truncateds, infos

    def get_state(self) -> dict[str, Any] | None:
        """Returns all that resumes an episode; None if the environment has no ``get_state`` and ``set_state``.

        Observations and infos are those of the latest step, so without those of agents that pause.
        """
        if not all(hasattr(self.parallel_env, name) for name in ("get_state", "set_state")):
            return None
        # Without the last observations of agents that left: no agent acts on them. One that pauses has none.
        live = self.agents
        observations, infos = ({agent: entries[agent] for agent in live if agent in entries} for entries in self._last)
        return {"parallel_env": self.parallel_env.get_state(), "observations": observations, "infos": infos}

    def set_state(self, state: Mapping[str, Any]) -> tuple[dict, dict]:
        """Restores a ``state`` of ``get_state``; returns its observations and infos."""
        self.parallel_env.set_state(state["parallel_env"])
        self._last = (state["observations"], state["infos"])
        return self._last

    def close(self) -> None:
        """Closes the wrapped environment."""
        self.parallel_env.close()


def adapted(env: Any) -> Any:
    """Returns ``env``, wrapped in an adapter if it is a ``ParallelEnv``."""
    return ParallelEnvAdapter(env) if isinstance(env, ParallelEnv) else env


class _MakerKind(type):
    """Class of all ``EnvMaker``s, by which ``pickle`` recognises them."""


class EnvMaker(metaclass=_MakerKind):
    """What RLlib takes as an environment class: called with an ``env_config``, it makes a ``ParallelEnv``.

    Classes of this kind are pickled by reference to ``factory``, without code, so that checkpoints can be read with
    another version of Python.
    """

    factory: Callable[..., Any]

    def __new__(cls, config: Mapping[str, Any]) -> Any:
        """Makes the environment for an ``env_config``."""
        return adapted(cls.factory(**config))


def rllib_env(env: Any) -> Any:
    """Converts a ``ParallelEnv`` class, or a function that makes one, to a class that RLlib accepts.

    The class is the same for each ``env`` and has its name, and ``env_config`` holds the keyword arguments and nothing
    else, so that both survive RLlib's and Tune's copies, dicts and names of trials. Registered names, RLlib's
    environment classes and what this function returned are returned unchanged.
    """
    if not callable(env) or (inspect.isclass(env) and not issubclass(env, ParallelEnv)):
        return env
    return _maker(env)


@functools.cache
def _maker(factory: Callable[..., Any]) -> type:
    return _MakerKind(getattr(factory, "__name__", "parallel_env"), (EnvMaker,), {"factory": staticmethod(factory)})


def _pickled(maker: Any) -> Any:
    """Reduces a maker for ``pickle``, which would look it up by name in a module."""
    return maker.__name__ if maker is EnvMaker else (_maker, (maker.factory,))


copyreg.pickle(_MakerKind, _pickled)


def registered_env(name: str, creator: Callable[[Mapping[str, Any]], Any]) -> type:
    """Returns the class for a name that ``register_env`` knows; its ``creator`` takes the ``env_config`` as a whole."""
    return type(name, (), {"__new__": lambda cls, config: adapted(creator(config))})
