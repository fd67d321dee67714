"""RLlib's multi-agent env runner without bookkeeping that grows, and with a run that can be resumed in mid-episode."""

from __future__ import annotations

from typing import Any

from ray.rllib.env.multi_agent_env_runner import MultiAgentEnvRunner
from ray.rllib.env.multi_agent_episode import MultiAgentEpisode
from ray.rllib.utils.metrics import (
    NUM_ENV_STEPS_SAMPLED,
    NUM_ENV_STEPS_SAMPLED_LIFETIME,
    NUM_EPISODES,
    NUM_EPISODES_LIFETIME,
)

from bippo_rllib.connector import BudgetSamplerConnector
from bippo_rllib.run_state import restore_run, run_state

RUN_STATE = "run"


class BippoEnvRunner(MultiAgentEnvRunner):
    """Steps the environment with the policy bank and the budget sampler.

    Differs from the stock runner in three ways: episode metrics are running sums (the stock runner keeps every chunk
    of the running episode, and several metrics per agent); a missing budget sampler is refused before anything is
    stepped; and its state holds the environment's, where the environment can tell it.
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
        for episode in episodes:
            self._count(episode)
        return episodes

    def get_metrics(self) -> Any:
        """Metrics since the last call; per-episode values are logged when an episode ends."""
        self._done_episodes_for_metrics.clear()
        return self.metrics.reduce()

    def get_state(self, components: Any = None, *, not_components: Any = None, **kwargs: Any) -> dict[str, Any]:
        """The stock state and, where the environment has ``get_state``, the running episode."""
        state = super().get_state(components, not_components=not_components, **kwargs)
        if self._check_component(RUN_STATE, components, not_components):
            state[RUN_STATE] = run_state(self)
        return state

    def set_state(self, state: dict[str, Any]) -> None:
        """Restores ``get_state``; the next ``sample`` goes on in the restored episode."""
        super().set_state(state)
        if state.get(RUN_STATE) is not None:
            restore_run(self, state[RUN_STATE])

    def _increase_sampled_metrics(self, num_steps: int, next_obs: dict, episode: MultiAgentEpisode) -> int:
        self.metrics.log_value(NUM_ENV_STEPS_SAMPLED, num_steps, reduce="sum")
        self.metrics.log_value(NUM_ENV_STEPS_SAMPLED_LIFETIME, num_steps, reduce="lifetime_sum", with_throughput=True)
        return num_steps

    def _count(self, chunk: MultiAgentEpisode) -> None:
        """Adds a chunk to the running episode's sums, and logs these when it ends."""
        self._episode_length += len(chunk)
        self._episode_return += chunk.get_return()
        if chunk.is_done:
            self.metrics.log_value(NUM_EPISODES, 1, reduce="sum")
            self.metrics.log_value(NUM_EPISODES_LIFETIME, 1, reduce="lifetime_sum")
            self._log_episode_metrics(self._episode_length, self._episode_return, chunk.get_duration_s())
            self._clear_counters()

    def _reset_envs_and_episodes(self, explore: bool) -> None:
        self._clear_counters()
        super()._reset_envs_and_episodes(explore)

    def _clear_counters(self) -> None:
        self._episode_length, self._episode_return = 0, 0.0
