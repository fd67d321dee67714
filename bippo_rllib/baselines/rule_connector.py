"""A rule as a connector of RLlib's module-to-env pipeline."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from bippo_rllib.baselines.rule import Rule
from bippo_rllib.selection.connector_columns import info_values
from bippo_rllib.selection.suggestion_connector import SuggestionConnector


class RuleConnector(SuggestionConnector):
    """Replaces the participation suggestions by the order of a ``Rule``.

    Pipeline: module-to-env, before a ``BudgetSamplerConnector`` with the strategy ``greedy``, which picks in that
    order. An agent whose suggestion is ``-inf``, no candidate, is observed by the rule but not ordered.

    Args:
        rule: The rule; its state is in checkpoints.
        cost_key: Info key of what it costs to train an agent.
        budget_key: Info key of what may be spent.
        client_of: Agent id -> client, whose record is continued when it returns under another agent id.
    """

    def __init__(
        self,
        rule: Rule,
        *,
        cost_key: str = "cost",
        budget_key: str = "budget",
        client_of: Callable[[Any], str] = str,
    ) -> None:
        super().__init__()
        self.rule = self.keeps = rule
        self._cost_key, self._budget_key, self._client_of = cost_key, budget_key, client_of

    @property
    def rule_name(self) -> str:
        """Name of the rule."""
        return type(self.rule).__name__

    def scores(
        self, suggestions: np.ndarray, agents: Sequence[str], infos: Mapping[str, Mapping[str, Any]]
    ) -> np.ndarray:
        """Returns scores in the order of the rule."""
        costs = info_values(infos, agents, self._cost_key, "RuleConnector(cost_key=...)")
        budget = float(info_values(infos, agents[:1], self._budget_key, "RuleConnector(budget_key=...)")[0])
        clients = [self._client_of(agent) for agent in agents]
        return self.rule.scores(
            clients, [infos[agent] for agent in agents], costs, budget, np.asarray(suggestions) != -np.inf
        )
