"""What one environment step taught: the participants' experience, from arrays or from an RLlib episode."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from ray.rllib.core.columns import Columns
from ray.rllib.env.multi_agent_episode import MultiAgentEpisode

from bippo_rllib.policies.actor_critic import PARTICIPATE


@dataclass(frozen=True)
class StepExperience:
    """One step of P participants, in agent order."""

    policy_ids: list[str]  #: whose experience it is
    observations: np.ndarray  #: ``float32[P, obs_dim]`` state each acted in
    next_observations: np.ndarray  #: ``float32[P, obs_dim]`` its state after the step
    log_probs: np.ndarray  #: ``float32[P]`` log pi(participate | s)
    rewards: np.ndarray  #: ``float32[P]``
    left: list[str]  #: policies whose agent left with this step
    episode_over: bool

    def __len__(self) -> int:
        """Environment steps."""
        return 1

    @property
    def num_participants(self) -> int:
        return len(self.policy_ids)


def entries_of(entries: Mapping[str, Any], agents: Sequence[str], what: str, *shape: int) -> np.ndarray:
    """What an environment returned for some agents, as ``float32[P, *shape]``.

    Raises:
        ValueError: If an entry is missing, of another shape or not finite; the message names the agent.
    """
    try:
        array = np.array([entries[agent] for agent in agents], dtype=np.float32).reshape(len(agents), *shape)
        if np.isfinite(array).all():
            return array
    except (KeyError, TypeError, ValueError):
        pass
    for agent in agents:
        entry = entries.get(agent)
        if entry is None:
            raise ValueError(f"the environment returned no {what} for {agent!r}, which acted in this step")
        if np.shape(entry) != shape or not np.isfinite(np.asarray(entry, dtype=np.float64)).all():
            raise ValueError(f"the {what} of {agent!r} is {entry}; it must be finite numbers of shape {shape}")
    raise ValueError(f"the environment's {what}s cannot be read")


def from_episode(episode: MultiAgentEpisode, failed_key: str) -> StepExperience:
    """The experience in a one-step chunk of the plain RLlib path, without participants flagged by ``failed_key``.

    Raises:
        ValueError: If the chunk is longer.
    """
    if len(episode) != 1:
        raise ValueError(f"a chunk of {len(episode)} steps; BIPPO learns from one environment step at a time")
    agents = [a for a in sorted(episode.agent_episodes) if len(episode.agent_episodes[a]) > 0]
    steps = [episode.agent_episodes[a] for a in agents]
    took_part = [s for s in steps if s.get_actions(0) == PARTICIPATE and not s.get_infos(-1).get(failed_key)]
    return StepExperience(
        policy_ids=[s.module_id for s in took_part],
        observations=_stack([s.get_observations(0) for s in took_part]),
        next_observations=_stack([s.get_observations(1) for s in took_part]),
        log_probs=_stack([s.get_extra_model_outputs(Columns.ACTION_LOGP, 0) for s in took_part]),
        rewards=_stack([s.get_rewards(0) for s in took_part]),
        left=[s.module_id for s in steps if s.is_done],
        episode_over=episode.is_done,
    )


def _stack(values: list) -> np.ndarray:
    return np.array([np.asarray(value, dtype=np.float32) for value in values], dtype=np.float32)
