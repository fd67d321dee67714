"""The plain RLlib path: the stock multi-agent env runner, without bookkeeping that grows and resumable."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from ray.rllib.env.env_runner import ENV_STEP_FAILURE
from ray.rllib.env.multi_agent_env import MultiAgentEnv
from ray.rllib.env.multi_agent_env_runner import MultiAgentEnvRunner
from ray.rllib.env.multi_agent_episode import MultiAgentEpisode
from ray.rllib.utils.metrics import (
    NUM_ENV_STEPS_SAMPLED,
    NUM_ENV_STEPS_SAMPLED_LIFETIME,
    NUM_EPISODES,
    NUM_EPISODES_LIFETIME,
)

from bippo_rllib.policies.agents import environment_in
from bippo_rllib.selection.connector import BudgetSamplerConnector

RUN_STATE = "run"


class EpisodeEnvRunner(MultiAgentEnvRunner):
    """Steps the environment through RLlib's own episodes and all of its pipelines.

    For environments with env-to-module connector pieces, and the oracle of ``BippoEnvRunner``, which does the same on
    arrays. Differs from the stock runner in three ways: episode metrics are running sums (the stock runner keeps every
    chunk of the running episode, and several metrics per agent); a missing budget sampler is refused before anything
    is stepped; and its state holds the environment's, where the environment can tell it. A step in which all agents
    leave while others join is refused: RLlib's own episodes end with the agents they know.
    """

    def __init__(self, config: Any, **kwargs: Any) -> None:
        super().__init__(config, **kwargs)
        self._clear_counters()

    @property
    def sampler_connector(self) -> BudgetSamplerConnector:
        """The budget sampler's piece in the module-to-env pipeline.

        Raises:
            ValueError: If there is none.
        """
        for piece in self._module_to_env.connectors:
            if isinstance(piece, BudgetSamplerConnector):
                return piece
        raise ValueError(
            "no BudgetSamplerConnector in the module-to-env pipeline, so nothing would keep the selection within the "
            "budget; leave add_default_connectors_to_module_to_env_pipeline on, or append the piece yourself"
        )

    def sample(self, **kwargs: Any) -> list[MultiAgentEpisode]:
        """As the stock runner; returned chunks are counted, not kept."""
        _ = self.sampler_connector
        episodes = super().sample(**kwargs)
        self._ongoing_episodes_for_metrics.clear()
        for chunk in episodes:
            self._count(len(chunk), chunk.get_return(), chunk.is_done)
        return episodes

    def get_metrics(self) -> Any:
        """Metrics since the last call; per-episode values are logged when an episode ends."""
        self._done_episodes_for_metrics.clear()
        return self.metrics.reduce()

    def get_state(self, components: Any = None, *, not_components: Any = None, **kwargs: Any) -> dict[str, Any]:
        """The stock state and, where the environment has ``get_state``, the running episode."""
        state = super().get_state(components, not_components=not_components, **kwargs)
        if self._check_component(RUN_STATE, components, not_components):
            state[RUN_STATE] = self._run_state()
        return state

    def set_state(self, state: dict[str, Any]) -> None:
        """Restores ``get_state``; the next ``sample`` goes on in the restored episode."""
        super().set_state(state)
        run = state.get(RUN_STATE)
        if run is not None:
            self._episode_length, self._episode_return = run["counters"]
            observations, infos = self._environment.set_state(run["environment"])
            self._resume(observations, infos, run["episode_over"])
            self._needs_initial_reset = False

    @property
    def _environment(self) -> MultiAgentEnv:
        return environment_in(self.env)

    def _run_state(self) -> dict[str, Any] | None:
        if self._needs_initial_reset or not hasattr(self._environment, "get_state"):
            return None
        state = self._environment.get_state()
        if state is None:
            return None
        counters = (self._episode_length, self._episode_return)
        return {"environment": state, "episode_over": self._episode_over(), "counters": counters}

    def _episode_over(self) -> bool:
        return bool(self.env.unwrapped._autoreset_envs[0])

    def _resume(self, observations: dict, infos: dict, episode_over: bool) -> None:
        """Puts an episode that begins here into RLlib's vector environment and pipelines."""
        _mark_as_reset(self.env.envs[0])
        vector_env = self.env.unwrapped
        vector_env._autoreset_envs = np.array([episode_over])
        vector_env._observations[0], vector_env._infos[0] = observations, infos
        self._shared_data: dict[str, Any] = {}
        self._new_episode(0)
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
        """As the stock runner's.

        Raises:
            ValueError: If all agents leave while others join.
        """
        results = super()._try_env_step(actions)
        if results != ENV_STEP_FAILURE:
            observations, _, terminateds, truncateds, _ = (entries[0] for entries in results)
            _check_somebody_stays(list(actions[0]), list(observations), terminateds, truncateds)
        return results

    def _increase_sampled_metrics(self, num_steps: int, next_obs: dict, episode: MultiAgentEpisode) -> int:
        self.metrics.log_value(NUM_ENV_STEPS_SAMPLED, num_steps, reduce="sum")
        self.metrics.log_value(NUM_ENV_STEPS_SAMPLED_LIFETIME, num_steps, reduce="lifetime_sum", with_throughput=True)
        return num_steps

    def _count(self, num_steps: int, episode_return: float, episode_over: bool) -> None:
        """Adds steps to the running episode's sums, and logs these when it ends."""
        self._episode_length += num_steps
        self._episode_return += episode_return
        if episode_over:
            self.metrics.log_value(NUM_EPISODES, 1, reduce="sum")
            self.metrics.log_value(NUM_EPISODES_LIFETIME, 1, reduce="lifetime_sum")
            seconds = time.perf_counter() - self._episode_start
            self._log_episode_metrics(self._episode_length, self._episode_return, seconds)
            self._clear_counters()

    def _reset_envs_and_episodes(self, explore: bool) -> None:
        self._clear_counters()
        super()._reset_envs_and_episodes(explore)

    def _clear_counters(self) -> None:
        self._episode_length, self._episode_return, self._episode_start = 0, 0.0, time.perf_counter()


def _check_somebody_stays(
    acted: Sequence[Any], seen: Sequence[Any], terminateds: Mapping[Any, bool], truncateds: Mapping[Any, bool]
) -> None:
    """RLlib would end the episode here, reset the environment in its next step, and so skip the joiners' steps."""
    if not acted or terminateds["__all__"] or truncateds["__all__"]:
        return
    joined = [agent for agent in seen if agent not in acted]
    if joined and all(terminateds.get(agent) or truncateds.get(agent) for agent in acted):
        raise ValueError(
            f"all {len(acted)} agents left in the step in which {joined[0]!r} joined; RLlib's own episodes end with "
            "the agents they know and cannot go on with others: use BippoEnvRunner, the default, which can"
        )


def _mark_as_reset(env: Any) -> None:
    """Gymnasium's order check, a wrapper around every environment, would demand a reset."""
    while env is not env.unwrapped:
        if hasattr(env, "_has_reset"):
            env._has_reset = True
        env = env.env
