"""Steps all agents with one pass of the central network."""

from __future__ import annotations

import numpy as np

from bippo_rllib.central.policy import CENTRAL, CentralPolicy
from bippo_rllib.central.update import CentralStep
from bippo_rllib.learning.experience import entries_of
from bippo_rllib.policies.agents import policy_of
from bippo_rllib.runners.env_runner import BippoEnvRunner, Outcome


class CentralEnvRunner(BippoEnvRunner):
    """Steps all agents with one pass of the central network, and hands on the joint experience."""

    @property
    def _policy(self) -> CentralPolicy:
        return self.module[CENTRAL]

    @property
    def _observation_shape(self) -> tuple[int, ...]:
        return self._policy.observation_space.shape

    def _seat(self) -> None:
        self._policy.seat([policy_of(agent_id) for agent_id in self._episode.agent_ids])

    def _act(self, observations: np.ndarray) -> dict[str, np.ndarray]:
        return self._policy.act(observations)

    def _experience(self, step: Outcome) -> CentralStep:
        agents = self._episode.agent_ids
        participants = [agents[i] for i in np.flatnonzero(step.took_part)]
        team = entries_of(step.rewards, participants, "reward").astype(np.float64)
        return CentralStep(
            generation=self._policy.generation,
            observations=step.observations,
            next_observations=entries_of(step.after, agents, "observation", *self._observation_shape),
            participated=step.took_part,
            log_probs=step.log_probs,
            reward=float(team.mean()) if participants else 0.0,
            episode_over=step.over,
        )
