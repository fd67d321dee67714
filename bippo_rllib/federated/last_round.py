"""The last selection: its rewards, and what policies learn from it once its outcome is known."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from bippo_rllib.federated.reports import ACCURACY, EFFECT, REWARD, check_mapping, checked_number
from bippo_rllib.federated.rewards import Reward
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
    rewards: np.ndarray  #: ``float32[N]``; NaN for a policy that learns nothing from the round
    removed: np.ndarray  #: ``bool[N]`` policies that were removed since; one added under the name has not acted in it

    def set_rewards(
        self,
        trained: Collection[Any],
        accuracies: Mapping[Any, float] | None,
        effects: Mapping[Any, float] | None,
        rewards: Mapping[Any, float] | float | None,
        formula: Reward | None,
    ) -> None:
        """Sets who trained and the reward of each; see ``ClientSelector.update``.

        Args:
            trained: Clients that trained.
            accuracies: Accuracies of all clients after the round.
            effects: Effects of the clients that trained.
            rewards: One reward for all, or by client.
            formula: Reward function of accuracies and effects; None if it is not known.
        """
        if [accuracies, effects, rewards].count(None) < 2:
            raise ValueError("give at most one of accuracies, effects and rewards")
        for name, given in (("accuracies", accuracies), ("effects", effects)):
            if given is not None:
                check_mapping(given, name)
        index = self._index_of(trained)
        if accuracies is not None:
            rewards = self._team_reward(_known(formula), accuracies) if self.policy_ids else 0.0
        elif effects is not None:
            of_effect = _known(formula).of_effect
            rewards = {c: of_effect(checked_number(c, effects.get(c), "effect", EFFECT)) for c in trained}
        by_client = rewards if isinstance(rewards, Mapping) else dict.fromkeys(trained, rewards)
        values = [math.nan] * len(index)
        if rewards is not None:
            values = [checked_number(client, by_client.get(client), "reward", REWARD) for client in trained]
        self.trained[:], self.rewards[:] = False, math.nan
        self.trained[index], self.rewards[index] = True, values
        self.rewards[self.removed] = math.nan

    def remove(self, policy_id: str) -> None:
        """Records that a policy was removed: another one that is added under its name learns nothing from the round."""
        if policy_id in self.policy_ids:
            index = self.policy_ids.index(policy_id)
            self.removed[index], self.rewards[index] = True, math.nan

    def touches(self, ids: Collection[str]) -> list[str]:
        """Returns the policies that the round changes: the rewarded ones, and the ones not in ``ids``, which left.

        Args:
            ids: Policies of the clients that are available by now.
        """
        now = set(ids)
        rewards = zip(self.policy_ids, self.rewards.tolist(), strict=True)
        return [policy for policy, reward in rewards if policy not in now or not math.isnan(reward)]

    def experience(self, policies: PolicyStack, ids: Sequence[str], observations: np.ndarray) -> StepExperience:
        """Returns one step of training, of the clients that trained and are still available.

        Args:
            policies: The policies; clients without one any more are left out.
            ids: ``[M]`` policies of the clients that are available by now.
            observations: ``float32[M, obs_dim]`` their observations.
        """
        now = {policy_id: i for i, policy_id in enumerate(ids)}
        known = [(i, policy_id) for i, policy_id in enumerate(self.policy_ids) if policy_id in policies.slots]
        index = [i for i, policy_id in known if policy_id in now and not math.isnan(self.rewards[i])]
        participants = [self.policy_ids[i] for i in index]
        return StepExperience(
            slots=policies.slots_of(participants),
            observations=self.observations[index],
            next_observations=observations[np.array([now[policy_id] for policy_id in participants], dtype=np.int64)],
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

    def _team_reward(self, formula: Reward, accuracies: Mapping[Any, float]) -> float:
        """Returns the reward of the change of the mean over clients with accuracies before and after; 0 if none."""
        if np.isnan(self.accuracies).all():
            raise ValueError("there were no accuracies in the last select to compare with; give effects or rewards")
        after = {policy_of(c): checked_number(c, value, "accuracy", ACCURACY) for c, value in accuracies.items()}
        compared = [p in after and not math.isnan(a) for p, a in zip(self.policy_ids, self.accuracies, strict=True)]
        if not any(compared):
            return 0.0
        stayed = np.array([after[self.policy_ids[i]] for i in np.flatnonzero(compared)])
        return formula.of_team(float(np.mean(self.accuracies[compared])), float(np.mean(stayed)))


def _known(formula: Reward | None) -> Reward:
    if formula is None:
        raise ValueError(
            "the environment that the policies were trained in has no reward of accuracies or effects; give rewards, "
            "or name one: ClientSelector.load(..., reward=Reward(...))"
        )
    return formula
