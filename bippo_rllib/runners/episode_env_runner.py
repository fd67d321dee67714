"""The plain RLlib path: the stock multi-agent env runner on RLlib's own episodes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from ray.rllib.env.env_runner import ENV_STEP_FAILURE
from ray.rllib.env.multi_agent_episode import MultiAgentEpisode

from bippo_rllib.runners.base_env_runner import BaseEnvRunner
from bippo_rllib.runners.running_episode import RunningEpisode, check_returned, with_last_observations
from bippo_rllib.selection.metrics import log_reward


class EpisodeEnvRunner(BaseEnvRunner):
    """Steps the environment through RLlib's own episodes and all of its pipelines.

    For environments with env-to-module connector pieces, and the oracle of ``BippoEnvRunner``, which does the same on
    arrays. Beside what ``BaseEnvRunner`` changes, it differs from the stock runner in two ways: a missing budget
    sampler is refused before anything is stepped, and so is a step in which all agents leave while others join, since
    RLlib's own episodes end with the agents they know.
    """

    def sample(self, **kwargs: Any) -> list[MultiAgentEpisode]:
        """As the stock runner; callbacks get one summary of the chunks that were returned before, not these."""
        _ = self.sampler_connector  # refuses a missing one before anything is stepped
        episodes = super().sample(**kwargs)
        self._ongoing_episodes_for_metrics.clear()
        for chunk in episodes:
            self._count(len(chunk), chunk.get_return(), chunk.is_done)
            if not chunk.is_done:
                self._ongoing_episodes_for_metrics[chunk.id_] = [self._summary(chunk.id_)]
        return episodes

    def _summary(self, episode_id: str) -> RunningEpisode:
        """Length and return of what has been returned of the running episode, for callbacks at its end."""
        return RunningEpisode(
            episode_id,
            self.config.policy_mapping_fn,
            env_t=self._episode_length,
            total_return=self._episode_return,
        )

    def _episode_over(self) -> bool:
        return bool(self.env.unwrapped._autoreset_envs[0])

    def _episode_id(self) -> str:
        return self._ongoing_episodes[0].id_

    def _resume(self, observations: dict, infos: dict, *, episode_id: str, episode_over: bool) -> None:
        """Puts an episode that begins here into RLlib's vector environment and pipelines."""
        _mark_as_reset(self.env.envs[0])
        vector_env = self.env.unwrapped
        vector_env._autoreset_envs = np.array([episode_over])
        vector_env._observations[0], vector_env._infos[0] = observations, infos
        self._shared_data: dict[str, Any] = {}
        self._new_episode(0)
        self._ongoing_episodes[0].id_ = episode_id
        if not episode_over:
            self._ongoing_episodes[0].add_env_reset(observations=observations, infos=infos)
        self._cached_to_module = self._env_to_module(
            rl_module=self.module,
            batch={},
            episodes=self._ongoing_episodes,
            explore=self.config.explore,
            shared_data=self._shared_data,
            metrics=self.metrics,
        )

    def _try_env_step(self, actions: Sequence[Mapping[Any, Any]]) -> Any:
        """Steps the environment, logs the step's reward, and completes what agents that were terminated leave behind.

        Raises:
            ValueError: If all agents leave while others join, or what is learned from is missing.
        """
        results = super()._try_env_step(actions)
        if results != ENV_STEP_FAILURE:
            observations, rewards, terminateds, truncateds, _ = (entries[0] for entries in results)
            check_returned(list(actions[0]), observations, rewards, terminateds, truncateds)
            log_reward(self.metrics, actions[0], rewards)
            _check_somebody_stays(list(actions[0]), list(observations), terminateds, truncateds)
            episode = self._ongoing_episodes[0]
            results[0][0] = with_last_observations(
                observations, lambda: episode.get_observations(-1), actions[0], terminateds
            )
        return results

    def _reset_envs_and_episodes(self, explore: bool) -> None:
        self._clear_counters()
        super()._reset_envs_and_episodes(explore)


def _check_somebody_stays(
    acted: Sequence[Any], seen: Sequence[Any], terminateds: Mapping[Any, bool], truncateds: Mapping[Any, bool]
) -> None:
    """RLlib would end the episode here, reset the environment in its next step, and so skip the joiners' steps."""
    if not acted or terminateds["__all__"] or truncateds.get("__all__"):
        return
    joined = [agent for agent in seen if agent not in acted]
    if joined and all(terminateds.get(agent) or truncateds.get(agent) for agent in acted):
        raise ValueError(
            f"all {len(acted)} agents left in the step in which {joined[0]!r} joined; RLlib's own episodes end with "
            "the agents they know and cannot continue with others: use BippoEnvRunner, the default, which can"
        )


def _mark_as_reset(env: Any) -> None:
    """Gymnasium's order check, a wrapper around every environment, would demand a reset."""
    while env is not env.unwrapped:
        if hasattr(env, "_has_reset"):
            env._has_reset = True
        env = env.env
