"""The last selection: what it was worth, and what policies learn from it once it is known what it led to."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from bippo_rllib.deploy.reports import checked_number
from bippo_rllib.deploy.rewards import formulas
from bippo_rllib.learning.experience import StepExperience
from bippo_rllib.policies.agents import policy_of
from bippo_rllib.policies.policy_stack import PolicyStack


@dataclass
class LastRound:
    """What N policies saw and did."""

    policy_ids: list[str]
    observations: np.ndarray  #: ``float32[N, obs_dim]`` acted in
    log_probs: np.ndarray  #: ``float32[N]`` log pi(participate | s)
    accuracies: np.ndarray  #: ``float64[N]`` before the round; NaN where none was reported
    trained: np.ndarray  #: ``bool[N]``
    rewards: np.ndarray  #: ``float32[N]``; NaN for those that did not train, and for all until ``pay``

    def pay(
        self,
        selected: Collection[Any],
        accuracies: Mapping[Any, float] | None,
        effects: Mapping[Any, float] | None,
        rewards: Mapping[Any, float] | float | None,
    ) -> None:
        """Notes who trained and what each gets; see ``ClientSelector.report``."""
        if [accuracies, effects, rewards].count(None) != 2:
            raise ValueError("give one of accuracies, effects and rewards")
        if accuracies is not None:
            rewards = self._team_reward(accuracies)
        elif effects is not None:
            effect_reward = formulas().effect_reward
            rewards = {
                client: effect_reward(checked_number(client, effects.get(client), "effect")) for client in selected
            }
        by_client = rewards if isinstance(rewards, Mapping) else dict.fromkeys(selected, rewards)
        values = [checked_number(client, by_client.get(client), "reward") for client in selected]
        for client, value in zip(selected, values, strict=True):
            if abs(value) > np.finfo(self.rewards.dtype).max:
                raise ValueError(f"{client!r} has reward = {value!r}; too large for {self.rewards.dtype}")
        index = self._index_of(selected)
        self.trained[:], self.rewards[:] = False, math.nan
        self.trained[index], self.rewards[index] = True, values

    def experience(self, policies: PolicyStack, ids: Sequence[str], observations: np.ndarray) -> StepExperience:
        """One step of training, of those that trained and are still there.

        Args:
            policies: The policies; those that are no longer among them are passed over.
            ids: ``[M]`` of the clients that are there by now.
            observations: ``float32[M, obs_dim]`` what they see.
        """
        now = {policy_id: i for i, policy_id in enumerate(ids)}
        known = [(i, policy_id) for i, policy_id in enumerate(self.policy_ids) if policy_id in policies.slots]
        index = [i for i, policy_id in known if policy_id in now and not math.isnan(self.rewards[i])]
        participants = [self.policy_ids[i] for i in index]
        return StepExperience(
            slots=policies.slots_of(participants),
            observations=self.observations[index],
            next_observations=observations[[now[policy_id] for policy_id in participants]],
            log_probs=self.log_probs[index],
            rewards=self.rewards[index],
            departed=policies.slots_of([policy_id for _, policy_id in known if policy_id not in now]),
            episode_over=False,
        )

    def _index_of(self, clients: Collection[Any]) -> list[int]:
        position = {policy_id: i for i, policy_id in enumerate(self.policy_ids)}
        absent = [client for client in clients if policy_of(client) not in position]
        if absent:
            raise ValueError(f"{absent} cannot have trained: no such clients in the last select")
        return [position[policy_of(client)] for client in clients]

    def _team_reward(self, accuracies: Mapping[Any, float]) -> float:
        """Of the change of the mean over all with an accuracy before and after; 0 if there is none."""
        if np.isnan(self.accuracies).all():
            raise ValueError("there were no accuracies in the last select to compare with; give effects or rewards")
        after = {policy_of(client): checked_number(client, value, "accuracy") for client, value in accuracies.items()}
        compared = [p in after and not math.isnan(a) for p, a in zip(self.policy_ids, self.accuracies, strict=True)]
        if not any(compared):
            return 0.0
        stayed = np.array([after[self.policy_ids[i]] for i in np.flatnonzero(compared)])
        return formulas().accuracy_reward(float(np.mean(self.accuracies[compared])), float(np.mean(stayed)))
