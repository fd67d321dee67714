"""The default env runner: steps all agents as arrays, with one forward pass and one call of the sampler."""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from ray.rllib.core import COMPONENT_RL_MODULE
from ray.rllib.core.columns import Columns
from ray.rllib.env import INPUT_ENV_SINGLE_SPACES, INPUT_ENV_SPACES
from ray.rllib.utils import force_list
from ray.rllib.utils.metrics import MODULE_TO_ENV_CONNECTOR, RLMODULE_INFERENCE_TIMER, SAMPLE_TIMER

from bippo_rllib.learning.experience import Step, StepExperience
from bippo_rllib.policies.actor_critic import PARTICIPATE
from bippo_rllib.policies.agents import policy_spaces
from bippo_rllib.policies.policy_bank import shared_policy_message
from bippo_rllib.runners.base_env_runner import BaseEnvRunner
from bippo_rllib.runners.running_episode import (
    RunningEpisode,
    Transition,
    check_participants_seen,
    check_returned,
    stack_entries,
    with_last_observations,
)
from bippo_rllib.selection.connector_columns import AgentColumn, AgentKey, AgentOrder, values_of
from bippo_rllib.selection.metrics import REDUCE, log_reward


class BippoEnvRunner(BaseEnvRunner):
    """Steps all agents as arrays; selections and updates are those of ``EpisodeEnvRunner``, bit for bit.

    The module-to-env pipeline is RLlib's and holds the user's connectors and the budget sampler; columns are
    ``AgentColumn``s. Connectors and callbacks get a ``RunningEpisode`` instead of a ``MultiAgentEpisode``.

    Attributes:
        module: The learner's policy bank, which ``Bippo.setup`` sets, so that no weights are copied. In evaluation a
            copy of it, which may grow or start over where the environment has other agents.
    """

    module: Any

    def make_module(self) -> None:
        """Builds a policy bank for evaluation only; in training the learner's is used."""
        evaluates = self.config.in_evaluation
        self.module = self.config.get_multi_rl_module_spec(env=self.env.unwrapped).build() if evaluates else None

    def get_spaces(self) -> dict[str, Any]:
        """Returns the spaces of the environment and of each policy."""
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
    ) -> list[Step]:
        """Steps the environment.

        Args:
            num_timesteps: Steps to make; 1 by default.
            num_episodes: Whole episodes to run instead, from a reset to their end.
            explore: Passed to the sampler; the config's setting by default.
            force_reset: Start a new episode first.
            **kwargs: RLlib's ``random_actions``, which must be False.

        Returns:
            The experience of each step.

        Raises:
            ValueError: If there is no budget sampler, or the arguments contradict each other.
        """
        if kwargs.get("random_actions"):
            raise ValueError("random_actions=True would ignore the budget; use .selection(sampler='random') instead")
        for name, number in (("num_timesteps", num_timesteps), ("num_episodes", num_episodes)):
            if number is not None and (number < 0 or None not in (num_timesteps, num_episodes)):
                raise ValueError(f"{name} is {number}; give num_timesteps or num_episodes, at least 0")
        self.sampler_connector()  # raises if there is none
        explore = self.config.explore if explore is None else explore
        with self.metrics.log_time(SAMPLE_TIMER):
            if force_reset or num_episodes is not None or self.needs_reset:
                self._reset(self.first_seed if self.needs_reset else None)
            self.needs_reset = num_episodes is not None
            steps: list[Step] = []
            ended = 0
            num_steps = 1 if num_timesteps is None else num_timesteps
            while ended < num_episodes if num_episodes is not None else len(steps) < num_steps:
                steps.append(self._step(explore))
                ended += steps[-1].episode_over
            self.sample_callback(steps)
        return steps

    @property
    def live_policies(self) -> Sequence[str]:
        """See ``BaseEnvRunner.live_policies``."""
        return () if self.needs_reset or self._episode.is_done else self._policies

    def start_episode(self) -> None:
        """Resets the environment if no episode is running; ``sample`` does the same."""
        if self.needs_reset:
            self._reset(self.first_seed)
            self.needs_reset = False

    def set_state(self, state: dict[str, Any]) -> None:
        """Restores the state that ``get_state`` returned; before ``module`` is set, weights are left to the learner."""
        if self.module is None:
            state = {key: value for key, value in state.items() if key != COMPONENT_RL_MODULE}
        super().set_state(state)

    def get_state(self, components: Any = None, *, not_components: Any = None, **kwargs: Any) -> dict[str, Any]:
        """Returns connectors, counters and the running episode; policies are in the learner's state."""
        skipped = [*force_list(not_components), COMPONENT_RL_MODULE]
        return super().get_state(components, not_components=skipped, **kwargs)

    def get_checkpointable_components(self) -> list[tuple[str, Any]]:
        """Returns the connector pipelines."""
        return [c for c in super().get_checkpointable_components() if c[0] != COMPONENT_RL_MODULE]

    def _reset(self, seed: int | None) -> None:
        self._clear_counters()
        self._new_episode_record()
        observations, infos = self._environment.reset(seed=seed)
        self._set_latest(observations, infos)
        self.episode_callback("on_episode_start", self._episode)

    def _new_episode_record(self) -> None:
        self._episode = RunningEpisode(uuid.uuid4().hex, self.config.policy_mapping_fn)
        self._episode.env_t, self._episode.total_return = self._episode_length, self._episode_return
        self.episode_callback("on_episode_created", self._episode)

    def _episode_id(self) -> str:
        return self._episode.id_

    def _resume(self, observations: dict, infos: dict, *, episode_id: str, episode_over: bool) -> None:
        self._new_episode_record()
        self._episode.id_, self._episode.is_done = episode_id, episode_over
        self._set_latest(observations, infos)

    def _set_latest(self, observations: Mapping[str, np.ndarray], infos: Mapping[str, Mapping[str, Any]]) -> None:
        self._episode.observations, self._episode.infos = observations, infos
        if not self._episode.is_done:
            self._set_agents(observations)

    def _act(self, observations: np.ndarray) -> dict[str, np.ndarray]:
        """Runs one forward pass for all live agents: ``[N, obs_dim]`` -> module outputs, ``[N]`` each."""
        return self.module.act(self._slots, observations)

    @property
    def _observation_shape(self) -> tuple[int, ...]:
        return (self.module.layout.obs_dim,)

    @property
    def _reduce(self) -> str:
        """How metrics of steps are reduced: a result of ``train()`` has one step, one of an evaluation many."""
        return "mean" if self.config.in_evaluation else "item"

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
        self._prepare_policies()

    def _prepare_policies(self) -> None:
        """Looks up the policies of the live agents; an agent that is not known yet gets a new one."""
        self.module.add_policies(self._policies)
        self._slots = self.module.slots_of(self._policies)
        agents_per_slot = np.bincount(self._slots, minlength=1)
        if agents_per_slot.max() > 1:
            shared = int(agents_per_slot.argmax())
            raise ValueError(shared_policy_message(self.module.ids[shared], int(agents_per_slot[shared])))

    def _step(self, explore: bool) -> Step:
        if self._episode.is_done:
            self._reset(None)
        transition = self._step_environment(explore)
        experience = self._experience_of(transition)
        self._advance(transition)
        return experience

    def _step_environment(self, explore: bool) -> Transition:
        agents = self._episode.agent_ids
        observations = stack_entries(self._episode.observations, agents, "observation", *self._observation_shape)
        columns = self._decide(observations, explore)
        actions = values_of(columns[Columns.ACTIONS], self._order)
        joint_action = dict(zip(agents, actions.tolist(), strict=True))
        after, rewards, terminateds, truncateds, infos = self._environment.step(joint_action)
        check_returned(agents, after, rewards, terminateds, truncateds)
        participated = self._participated(actions, infos)
        after = with_last_observations(after, lambda: self._episode.observations, agents, terminateds)
        check_participants_seen([agents[i] for i in np.flatnonzero(participated)], after)
        return Transition(
            observations=observations,
            actions=joint_action,
            participated=participated,
            log_probs=values_of(columns[Columns.ACTION_LOGP], self._order),
            next_observations=after,
            rewards=rewards,
            infos=infos,
            departed={a for a in agents if terminateds.get(a) or truncateds.get(a)},
            episode_over=bool(terminateds["__all__"] or truncateds.get("__all__")),
        )

    def _participated(self, actions: np.ndarray, infos: Mapping[str, Mapping[str, Any]]) -> np.ndarray:
        """Returns ``bool[N]``: agents that were selected, and are not flagged as dropped or failed."""
        participated, agents = actions == PARTICIPATE, self._episode.agent_ids
        for i in np.flatnonzero(participated):
            participated[i] = not any(map(infos.get(agents[i], {}).get, self.config.not_learned_keys))
        return participated

    def _experience_of(self, transition: Transition) -> Step:
        """Returns the experience to learn from: that of the participants."""
        agents, index = self._episode.agent_ids, np.flatnonzero(transition.participated)
        participants = [agents[i] for i in index]
        departed = [i for i, agent in enumerate(agents) if agent in transition.departed]
        return StepExperience(
            slots=self._slots[index],
            observations=transition.observations[index],
            next_observations=stack_entries(
                transition.next_observations, participants, "observation", *self._observation_shape
            ),
            log_probs=transition.log_probs[index],
            rewards=stack_entries(transition.rewards, participants, "reward"),
            departed=self._slots[departed],
            episode_over=transition.episode_over,
            episode_id=self._episode.id_,
        )

    def _advance(self, transition: Transition) -> None:
        """Updates the running episode with the step, and calls metrics and callbacks."""
        episode, over = self._episode, transition.episode_over
        episode.step(transition)
        self.log_step()
        log_reward(self.metrics, transition.actions, transition.rewards, self._reduce)
        self._count(1, float(sum(transition.rewards.values())), over)
        self.episode_callback("on_episode_step", episode)
        if over:
            self.episode_callback("on_episode_end", episode)
        else:
            self._set_agents(episode.observations)

    def _decide(self, observations: np.ndarray, explore: bool) -> dict[str, Mapping[AgentKey, Any]]:
        with self.metrics.log_time(RLMODULE_INFERENCE_TIMER):
            outputs = self._act(observations)
        return self.module_to_env(
            rl_module=self.module,
            batch={column: AgentColumn(self._order, array) for column, array in outputs.items()},
            episodes=[self._episode],
            explore=explore,
            shared_data={REDUCE: self._reduce},
            metrics=self.metrics,
            metrics_prefix_key=(MODULE_TO_ENV_CONNECTOR,),
        )
