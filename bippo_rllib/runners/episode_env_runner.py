"""An env runner on RLlib's episodes and all of its pipelines."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ray.rllib.env.multi_agent_episode import MultiAgentEpisode

from bippo_rllib.rllib_compat import EpisodeHooks
from bippo_rllib.runners.base_env_runner import BaseEnvRunner
from bippo_rllib.runners.running_episode import RunningEpisode, check_returned, with_last_observations
from bippo_rllib.selection.metrics import log_reward


class EpisodeEnvRunner(BaseEnvRunner, EpisodeHooks):
    """Steps the environment through RLlib's episodes and all of its pipelines.

    For environments with env-to-module connectors and agents that pause; ``BippoEnvRunner`` makes the same selections
    on arrays. A step in which all agents leave while others join is refused, since RLlib's episodes end with the agents
    they know.
    """

    def sample(self, **kwargs: Any) -> list[MultiAgentEpisode]:
        """Overrides RLlib's; callbacks get one summary of all earlier chunks of an episode instead of the chunks."""
        self.sampler_connector()  # raises if there is none
        episodes = super().sample(**kwargs)
        self.keep_chunks()
        for chunk in episodes:
            self._count(len(chunk), chunk.get_return(), chunk.is_done)
            if not chunk.is_done:
                self.keep_chunks(chunk.id_, [self._summary(chunk.id_)])
        return episodes

    @property
    def live_policies(self) -> Sequence[str]:
        """See ``BaseEnvRunner.live_policies``; agents that pause are among them."""
        if self.needs_reset or self.resets_next:
            return ()
        episode = self.running_episode
        return [episode.module_for(agent) for agent, steps in episode.agent_episodes.items() if not steps.is_done]

    def _summary(self, episode_id: str) -> RunningEpisode:
        """Returns length and return of the earlier chunks of an episode, for callbacks at its end."""
        return RunningEpisode(
            episode_id,
            self.config.policy_mapping_fn,
            env_t=self._episode_length,
            total_return=self._episode_return,
        )

    def _episode_over(self) -> bool:
        return self.resets_next

    def _episode_id(self) -> str:
        return self.running_episode.id_

    def _resume(self, observations: dict, infos: dict, *, episode_id: str, episode_over: bool) -> None:
        self.resume_episode(observations, infos, episode_id, episode_over)

    def on_step(self, actions: Mapping[Any, Any], returned: tuple[Any, ...]) -> Mapping[Any, Any]:
        """Logs the step's reward and adds the last observations of agents that were terminated without one.

        Raises:
            ValueError: If all agents leave while others join, or what is learned from is missing.
        """
        observations, rewards, terminateds, truncateds, _ = returned
        check_returned(list(actions), observations, rewards, terminateds, truncateds)
        log_reward(self.metrics, actions, rewards)
        _check_not_all_replaced(list(actions), list(observations), terminateds, truncateds)
        before = self.running_episode
        return with_last_observations(observations, lambda: before.get_observations(-1), actions, terminateds)

    def on_seen(self, agent_ids: Iterable[Any]) -> None:
        """Adds policies of agents that nobody announced, or whose policy was removed before they came back."""
        self.module.add_policies([self.running_episode.module_for(agent_id) for agent_id in agent_ids])

    def on_reset(self) -> None:
        """Starts counting the steps of another episode."""
        self._clear_counters()


def _check_not_all_replaced(
    acted: Sequence[Any], seen: Sequence[Any], terminateds: Mapping[Any, bool], truncateds: Mapping[Any, bool]
) -> None:
    """Refuses a step after which RLlib would end the episode although other agents have joined."""
    if not acted or terminateds["__all__"] or truncateds.get("__all__"):
        return
    joined = [agent for agent in seen if agent not in acted]
    if joined and all(terminateds.get(agent) or truncateds.get(agent) for agent in acted):
        raise ValueError(
            f"all {len(acted)} agents left in the step in which {joined[0]!r} joined; RLlib's episodes end "
            "with the agents they know; use BippoEnvRunner, the default, which continues"
        )
