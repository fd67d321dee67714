"""A rule as a connector of RLlib's module-to-env pipeline."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import gymnasium as gym
import numpy as np

from bippo_rllib.baselines.rule import Rule, scores_in_order
from bippo_rllib.selection.connector_columns import info_values
from bippo_rllib.selection.suggestion_connector import SuggestionConnector


class RuleConnector(SuggestionConnector):
    """Replaces the participation suggestions by the order of a ``Rule``.

    Pipeline: module-to-env, before a ``BudgetSamplerConnector`` with the strategy ``greedy``, which picks in that
    order. An agent whose suggestion is ``-inf``, no candidate, is not shown to the rule.

    Args:
        rule: The rule; its state is in checkpoints.
        cost_key: Info key of what it costs to train an agent.
        budget_key: Info key of what may be spent.
        client_of: Agent id -> client, whose record is continued when it returns under another agent id.
        input_observation_space: See ``ConnectorV2``.
        input_action_space: See ``ConnectorV2``.
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
        """Name of the rule."""
        return type(self.rule).__name__

    def scores(
        self, suggestions: np.ndarray, agents: Sequence[str], infos: Mapping[str, Mapping[str, Any]]
    ) -> np.ndarray:
        """Returns scores in the order of the rule."""
        candidates = np.flatnonzero(np.asarray(suggestions) > -np.inf)
        scores = np.full(len(agents), -np.inf)
        if candidates.size:
            names = [agents[i] for i in candidates.tolist()]
            costs = info_values(infos, names, self._cost_key, "RuleConnector(cost_key=...)")
            budget = float(info_values(infos, names[:1], self._budget_key, "RuleConnector(budget_key=...)")[0])
            clients = [self._client_of(agent) for agent in names]
            order = self.rule.order(clients, [infos[agent] for agent in names], costs, budget)
            scores[candidates] = scores_in_order(order, len(names))
        return scores

    def get_state(self, components: Any = None, *, not_components: Any = None, **kwargs: Any) -> dict[str, Any]:
        """Returns the state of the rule."""
        return self.rule.get_state()

    def set_state(self, state: Mapping[str, Any]) -> None:
        """Restores the state that ``get_state`` returned; an empty one, which RLlib may pass, changes nothing."""
        if state:
            self.rule.set_state(state)
