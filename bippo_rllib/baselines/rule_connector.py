"""A rule as a piece of RLlib's module-to-env pipeline."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import gymnasium as gym
import numpy as np

from bippo_rllib.baselines.rule import Rule, scores_in_order
from bippo_rllib.selection.connector_columns import info_values
from bippo_rllib.selection.suggestion_connector import SuggestionConnector


class RuleConnector(SuggestionConnector):
    """Puts the order of a ``Rule`` in the place of the participation suggestions.

    Pipeline: module-to-env, before a ``BudgetSamplerConnector`` with the strategy ``greedy``, which picks in that
    order. An agent whose suggestion is ``-inf``, no candidate, is not shown to the rule.

    Args:
        rule: The rule; its state is in checkpoints.
        cost_key: Info key of what it costs to train an agent.
        budget_key: Info key of what may be spent.
        client_of: Agent id -> client, whose record is continued when it returns under another agent id.
        input_observation_space: As for every connector.
        input_action_space: As for every connector.
    """

    def __init__(
        self,
        rule: Rule,
        *,
        cost_key: str = "cost",
        budget_key: str = "budget",
        client_of: Callable[[Any], str] = str,
        input_observation_space: gym.Space | None = None,
        input_action_space: gym.Space | None = None,
    ) -> None:
        super().__init__(input_observation_space, input_action_space)
        self.rule = rule
        self._cost_key, self._budget_key, self._client_of = cost_key, budget_key, client_of

    @property
    def rule_name(self) -> str:
        """The rule's."""
        return type(self.rule).__name__

    def scores(
        self, suggestions: np.ndarray, agents: Sequence[str], infos: Mapping[str, Mapping[str, Any]]
    ) -> np.ndarray:
        """Ranks the candidates as the rule orders them."""
        candidates = np.flatnonzero(np.asarray(suggestions) > -np.inf)
        scores = np.full(len(agents), -np.inf)
        if candidates.size:
            asked = [agents[i] for i in candidates.tolist()]
            costs = info_values(infos, asked, self._cost_key, "RuleConnector(cost_key=...)")
            budget = float(info_values(infos, asked[:1], self._budget_key, "RuleConnector(budget_key=...)")[0])
            clients = [self._client_of(agent) for agent in asked]
            order = self.rule.order(clients, [infos[agent] for agent in asked], costs, budget)
            scores[candidates] = scores_in_order(order, len(asked))
        return scores

    def get_state(self, components: Any = None, *, not_components: Any = None, **kwargs: Any) -> dict[str, Any]:
        """What the rule remembers."""
        return self.rule.get_state()

    def set_state(self, state: Mapping[str, Any]) -> None:
        """Restores ``get_state``; RLlib may pass an empty state, which changes nothing."""
        if state:
            self.rule.set_state(state)
