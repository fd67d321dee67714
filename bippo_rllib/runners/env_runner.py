"""Steps all agents as arrays: one forward pass, one sampler call, and experience of the participants only."""

from __future__ import annotations

import uuid
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from ray.rllib.core import COMPONENT_RL_MODULE
from ray.rllib.core.columns import Columns
from ray.rllib.env import INPUT_ENV_SINGLE_SPACES, INPUT_ENV_SPACES
from ray.rllib.utils.metrics import (
    MODULE_TO_ENV_CONNECTOR,
    RLMODULE_INFERENCE_TIMER,
    SAMPLE_TIMER,
)

from bippo_rllib.learning.experience import StepExperience, entries_of
from bippo_rllib.policies.actor_critic import PARTICIPATE
from bippo_rllib.policies.agents import policy_spaces
from bippo_rllib.policies.policy_bank import shared_policy_message
from bippo_rllib.runners.episode_env_runner import EpisodeEnvRunner
from bippo_rllib.selection.columns import AgentColumn, AgentOrder


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
class Outcome:
    """One step of the N live agents, in agent order, as the environment and the sampler left it."""

    observations: np.ndarray  #: ``float32[N, obs_dim]`` state they acted in
    took_part: np.ndarray  #: ``bool[N]`` participated, and its work was not lost
    log_probs: np.ndarray  #: ``float32[N]``
    after: Mapping[str, np.ndarray]  #: observation of each agent after the step
    rewards: Mapping[str, float]
    gone: Collection[str]  #: agents that left with the step
    over: bool  #: whether the episode is


class BippoEnvRunner(EpisodeEnvRunner):
    """The default runner. Same selections and updates, bit for bit, as ``EpisodeEnvRunner``, whatever is O(agents) in
    Python there being array work here.

    The module-to-env pipeline is RLlib's, holding the user's pieces and the budget sampler; columns are
    ``AgentColumn``s. Pieces and callbacks get a ``RunningEpisode`` in place of a ``MultiAgentEpisode``. It uses the
    policy bank of the learner, so there are no weights to sync.
    """

    module: Any

    def make_module(self) -> None:
        """``Bippo.setup`` hands over the learner's bank; a second one would only cost memory."""
        self.module = None

    def get_spaces(self) -> dict[str, Any]:
        """Spaces of the environment and of each policy."""
        return {
            INPUT_ENV_SPACES: (self.env.observation_space, self.env.action_space),
            INPUT_ENV_SINGLE_SPACES: (self.env.single_observation_space, self.env.single_action_space),
            **policy_spaces(self._environment, self.config.policy_mapping_fn, self.config.policies),
        }

    def sample(
        self,
        *,
        num_timesteps: int | None = None,
        num_episodes: int | None = None,
        explore: bool | None = None,
        force_reset: bool = False,
        **kwargs: Any,
    ) -> list[StepExperience]:
        """Steps the environment.

        Args:
            num_timesteps: Steps to make; 1 by default.
            num_episodes: Whole episodes to run instead, from a reset to their end.
            explore: Passed to the sampler; the config's setting by default.
            force_reset: Start a new episode first.
            **kwargs: ``random_actions`` of the stock runner is refused.

        Returns:
            One ``StepExperience`` per step.
        """
        if kwargs.get("random_actions"):
            raise ValueError("random_actions=True would ignore the budget; use .training(sampler='random') instead")
        _ = self.sampler_connector
        explore = self.config.explore if explore is None else explore
        with self.metrics.log_time(SAMPLE_TIMER):
            if force_reset or num_episodes is not None or self._needs_initial_reset:
                self._begin_episode(self._seed if self._needs_initial_reset else None)
            self._needs_initial_reset = num_episodes is not None
            steps: list[StepExperience] = []
            ended = 0
            while ended < num_episodes if num_episodes is not None else len(steps) < (num_timesteps or 1):
                steps.append(self._step(explore))
                ended += steps[-1].episode_over
        return steps

    def begin(self) -> None:
        """Starts the first episode, which ``sample`` otherwise does; nothing if one is running."""
        if self._needs_initial_reset:
            self._begin_episode(self._seed)
            self._needs_initial_reset = False

    def set_state(self, state: dict[str, Any]) -> None:
        """Restores ``get_state``; before the bank is handed over, weights are left to the learner."""
        if self.module is None:
            state = {key: value for key, value in state.items() if key != COMPONENT_RL_MODULE}
        super().set_state(state)

    def get_state(self, components: Any = None, *, not_components: Any = None, **kwargs: Any) -> dict[str, Any]:
        """Connectors, counters and the running episode. The bank is the learner's, and saved there."""
        skipped = [
            *([not_components] if isinstance(not_components, str) else not_components or []),
            COMPONENT_RL_MODULE,
        ]
        return super().get_state(components, not_components=skipped, **kwargs)

    def get_checkpointable_components(self) -> list[tuple[str, Any]]:
        """The connector pipelines."""
        return [c for c in super().get_checkpointable_components() if c[0] != COMPONENT_RL_MODULE]

    def _begin_episode(self, seed: int | None) -> None:
        observations, infos = self._environment.reset(seed=seed)
        self._clear_counters()
        self._resume(observations, infos, episode_over=False)
        self._make_on_episode_callback("on_episode_start", 0, [self._episode])

    def _resume(self, observations: dict, infos: dict, episode_over: bool) -> None:
        self._episode = RunningEpisode(uuid.uuid4().hex, [], observations, infos, is_done=episode_over)
        if not episode_over:
            self._set_agents(observations)

    def _act(self, observations: np.ndarray) -> dict[str, np.ndarray]:
        """One forward pass for all live agents: ``[N, obs_dim]`` -> module outputs, ``[N]`` each."""
        return self.module.act(self._rows, observations)

    @property
    def _observation_shape(self) -> tuple[int, ...]:
        return (self.module.layout.obs_dim,)

    def _episode_over(self) -> bool:
        return self._episode.is_done

    def _set_agents(self, observations: Mapping[str, np.ndarray]) -> None:
        agents = sorted(observations)
        if agents == self._episode.agent_ids:
            return
        self._episode.agent_ids = agents
        self._policies = [self.config.policy_mapping_fn(agent_id, self._episode) for agent_id in agents]
        keys = [(self._episode.id_, a, p) for a, p in zip(agents, self._policies, strict=True)]
        self._order = AgentOrder.of(keys)
        self._seat()

    def _seat(self) -> None:
        """Gets the bank ready for the live agents."""
        policies = self._policies
        self.module.add_policies(policies)  # an agent nobody announced gets a fresh policy; known ones stay as they are
        self._rows = self.module.row_index(policies)
        shared = np.flatnonzero(np.bincount(self._rows, minlength=1) > 1)
        if shared.size:
            shared_id = next(p for p in policies if self.module.rows[p] == shared[0])
            raise ValueError(shared_policy_message(shared_id, int((self._rows == shared[0]).sum())))

    def _step(self, explore: bool) -> StepExperience:
        if self._episode.is_done:
            self._begin_episode(None)
        episode, agents = self._episode, self._episode.agent_ids
        observations = entries_of(episode.observations, agents, "observation", *self._observation_shape)
        columns = self._decide(observations, explore)
        actions = columns[Columns.ACTIONS].array
        joint_action = dict(zip(agents, actions.tolist(), strict=True))
        after, rewards, terminateds, truncateds, infos = self._environment.step(joint_action)
        took_part = actions == PARTICIPATE
        for i in np.flatnonzero(took_part):
            took_part[i] = not infos.get(agents[i], {}).get(self.config.failed_key)
        over = bool(terminateds["__all__"] or truncateds["__all__"])
        gone = {a for a in agents if terminateds.get(a) or truncateds.get(a)}
        log_probs = columns[Columns.ACTION_LOGP].array
        experience = self._experience(Outcome(observations, took_part, log_probs, after, rewards, gone, over))
        episode.observations = {a: o for a, o in after.items() if a not in gone} if gone else after
        episode.infos, episode.is_done, episode.env_t = infos, over, episode.env_t + 1
        self._increase_sampled_metrics(1, after, episode)
        self._count(1, float(sum(rewards.values())), over)
        self._make_on_episode_callback("on_episode_end" if over else "on_episode_step", 0, [episode])
        self._ongoing_episodes_for_metrics.clear()
        if not over:
            self._set_agents(episode.observations)
        return experience

    def _experience(self, step: Outcome) -> Any:
        """What the step taught."""
        agents, index = self._episode.agent_ids, np.flatnonzero(step.took_part)
        participants = [agents[i] for i in index]
        return StepExperience(
            policy_ids=[self._policies[i] for i in index],
            observations=step.observations[index],
            next_observations=entries_of(step.after, participants, "observation", *self._observation_shape),
            log_probs=step.log_probs[index],
            rewards=entries_of(step.rewards, participants, "reward"),
            left=[p for a, p in zip(agents, self._policies, strict=True) if a in step.gone],
            episode_over=step.over,
        )

    def _decide(self, observations: np.ndarray, explore: bool) -> dict[str, AgentColumn]:
        with self.metrics.log_time(RLMODULE_INFERENCE_TIMER):
            outputs = self._act(observations)
        return self._module_to_env(
            rl_module=self.module,
            batch={column: AgentColumn(self._order, array) for column, array in outputs.items()},
            episodes=[self._episode],
            explore=explore,
            shared_data={},
            metrics=self.metrics,
            metrics_prefix_key=(MODULE_TO_ENV_CONNECTOR,),
        )
