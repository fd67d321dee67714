"""The episode as ``BippoEnvRunner`` keeps it, one step of it, and what an environment returned as arrays."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np


@dataclass
class RunningEpisode:
    """The episode as connector pieces and callbacks see it: the latest observations and infos of the live agents."""

    id_: str
    agent_ids: list[str]
    observations: Mapping[str, np.ndarray]
    infos: Mapping[str, Mapping[str, Any]]
    env_t: int = 0
    is_done: bool = False

    def get_observations(self, indices: int = -1) -> Mapping[str, np.ndarray]:
        """Latest observation of each live agent."""
        return self.observations

    def get_infos(self, indices: int = -1) -> Mapping[str, Mapping[str, Any]]:
        """Latest info of each live agent."""
        return self.infos


@dataclass(frozen=True)
class Transition:
    """One step of the N live agents, in agent order, as policies, sampler and environment left it."""

    observations: np.ndarray  #: ``float32[N, obs_dim]`` state they acted in
    took_part: np.ndarray  #: ``bool[N]`` participated, and its work was not lost
    log_probs: np.ndarray  #: ``float32[N]``
    next_observations: Mapping[str, np.ndarray]  #: by agent; joiners too, and departed agents where reported
    rewards: Mapping[str, float]
    infos: Mapping[str, Mapping[str, Any]]
    departed: Collection[str]  #: agents that left with the step while others stayed
    episode_over: bool


def stack_entries(entries: Mapping[str, Any], agents: Sequence[str], what: str, *shape: int) -> np.ndarray:
    """What an environment returned for some agents, as ``float32[len(agents), *shape]``.

    Raises:
        ValueError: If an entry is missing, of another shape or not finite; the message names the agent.
    """
    try:
        array = np.array([entries[agent] for agent in agents], dtype=np.float32).reshape(len(agents), *shape)
        if np.isfinite(array).all():
            return array
    except (KeyError, TypeError, ValueError):
        pass
    agent = next(agent for agent in agents if not _is_finite(entries.get(agent), shape))
    raise ValueError(
        f"the {what} of {agent!r} is {entries.get(agent, 'missing')}; the environment must return finite numbers of "
        f"shape {shape} for every agent that acts"
    )


def _is_finite(entry: Any, shape: tuple[int, ...]) -> bool:
    try:
        return np.shape(entry) == shape and bool(np.isfinite(np.asarray(entry, dtype=np.float32)).all())
    except (TypeError, ValueError):
        return False
