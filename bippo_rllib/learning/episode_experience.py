"""Experience of one environment step, read from RLlib's episodes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np
from ray.rllib.core.columns import Columns
from ray.rllib.env.multi_agent_episode import MultiAgentEpisode

from bippo_rllib.learning.experience import StepExperience
from bippo_rllib.policies.actor_critic import PARTICIPATE


def from_episode(
    episode: MultiAgentEpisode, not_learned_keys: Iterable[str], slots: Mapping[str, int]
) -> StepExperience:
    """Returns the experience in a one-step chunk of an episode, without participants that are flagged.

    Args:
        episode: The chunk.
        not_learned_keys: Info keys of the flags.
        slots: Policy id -> slot in the bank.

    Raises:
        ValueError: If the chunk is longer.
    """
    if len(episode) != 1:
        raise ValueError(f"a chunk of {len(episode)} steps; BIPPO learns from one environment step at a time")
    agents = [a for a in sorted(episode.agent_episodes) if len(episode.agent_episodes[a]) > 0]
    steps = [episode.agent_episodes[a] for a in agents]
    acted = [s for s in steps if s.get_actions(0) == PARTICIPATE]
    participated = [s for s in acted if not any(map(s.get_infos(-1).get, not_learned_keys))]
    return StepExperience(
        slots=np.array([slots[s.module_id] for s in participated], dtype=np.int64),
        observations=_stack([s.get_observations(0) for s in participated]),
        next_observations=_stack([s.get_observations(1) for s in participated]),
        log_probs=_stack([s.get_extra_model_outputs(Columns.ACTION_LOGP, 0) for s in participated]),
        rewards=_stack([s.get_rewards(0) for s in participated]),
        departed=np.array([slots[s.module_id] for s in steps if s.is_done], dtype=np.int64),
        episode_over=episode.is_done,
        episode_id=episode.id_,
    )


def _stack(values: list) -> np.ndarray:
    return np.array([np.asarray(value, dtype=np.float32) for value in values], dtype=np.float32)
