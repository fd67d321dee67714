"""The bandit as a connector of RLlib's module-to-env pipeline."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from bippo_rllib.baselines.bandit import RewardRecord
from bippo_rllib.baselines.rule import numbers
from bippo_rllib.selection.suggestion_connector import SuggestionConnector

#: Standard errors become logits by it.
GAIN = 3.0


class BanditSuggestions(SuggestionConnector):
    """Replaces suggestions by ``sigmoid(min(0, GAIN * (sum of standardised rewards) / sqrt(n + 1)))``.

    Tests whether policies are needed: the mean of each client's rewards replaces them, and only lowers its chances. See
    ``RewardRecord``. The connector is deterministic; the sampler explores.

    Pipeline: module-to-env, before a ``RepresentativenessPrior`` or a ``BudgetSamplerConnector`` with the strategy
    ``odds``. Needs in every agent's latest info: ``own_reward``, that of the last step, None if it did not participate.
    (The rewards of an episode are not in checkpoints, infos are.)

    Args:
        client_of: Agent id -> client, whose record is continued when it returns under another agent id.
    """

    def __init__(self, *, client_of: Callable[[Any], str] = str) -> None:
        super().__init__()
        self.record = self.keeps = RewardRecord()
        self._client_of = client_of

    def scores(
        self, suggestions: np.ndarray, agents: Sequence[str], infos: Mapping[str, Mapping[str, Any]]
    ) -> np.ndarray:
        """Records the rewards of the last step, and returns suggestions that do not depend on the policies."""
        clients = [self._client_of(agent) for agent in agents]
        needs = "BanditSuggestions needs; with envs.FederatedRounds set reward='shapley' or 'leave_one_out'"
        rewards = numbers(agents, [infos[agent] for agent in agents], "own_reward", needs, optional=True)
        for client, reward in zip(clients, rewards.tolist(), strict=True):
            if not np.isnan(reward):
                self.record.add(client, reward)
        logits = np.minimum(self.record.logits(clients, GAIN), 0.0)
        return 1.0 / (1.0 + np.exp(np.minimum(-logits, 700.0)))
