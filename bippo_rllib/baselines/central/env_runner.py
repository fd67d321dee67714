"""Steps all agents with one pass of the central network."""

from __future__ import annotations

import numpy as np

from bippo_rllib.baselines.central.experience import CentralStep
from bippo_rllib.baselines.central.policy import CentralPolicy
from bippo_rllib.policies.agents import CENTRAL, policy_of
from bippo_rllib.runners.env_runner import BippoEnvRunner
from bippo_rllib.runners.running_episode import Transition, stack_entries


class CentralEnvRunner(BippoEnvRunner):
    """Steps all agents with one pass of the central network, and returns the joint experience."""

    @property
    def _policy(self) -> CentralPolicy:
        return self.module[CENTRAL]

    @property
    def _observation_shape(self) -> tuple[int, ...]:
        return self._policy.observation_space.shape

    def _prepare_policies(self) -> None:
        self._policy.set_clients([policy_of(agent_id) for agent_id in self._episode.agent_ids])

    def _act(self, observations: np.ndarray) -> dict[str, np.ndarray]:
        return self._policy.act(observations)

    def _experience_of(self, transition: Transition) -> CentralStep:
        agents = self._episode.agent_ids
        participants = [agents[i] for i in np.flatnonzero(transition.participated)]
        rewards = stack_entries(transition.rewards, participants, "reward").astype(np.float64)
        return CentralStep(
            generation=self._policy.generation,
            observations=transition.observations,
            next_observations=stack_entries(
                transition.next_observations, agents, "observation", *self._observation_shape
            ),
            participated=transition.participated,
            log_probs=transition.log_probs,
            reward=float(rewards.mean()) if participants else 0.0,
            episode_over=transition.episode_over,
            episode_id=self._episode.id_,
        )
