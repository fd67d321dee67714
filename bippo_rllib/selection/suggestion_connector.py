"""Base of connectors that replace or adjust participation suggestions before the budget sampler."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from ray.rllib.connectors.connector_v2 import ConnectorV2

from bippo_rllib.selection.connector_columns import SUGGESTION, column_like, order_of, values_of


class SuggestionConnector(ConnectorV2):
    """A connector before the ``BudgetSamplerConnector`` that rewrites ``participation_suggestion``.

    A suggestion of ``-inf`` stays: an agent that a connector has excluded is no candidate for those after it.

    Attributes:
        keeps: What has the connector's state, by ``get_state()`` and ``set_state(state)``; None if there is none.
    """

    keeps: Any = None

    @property
    def rule_name(self) -> str:
        """Name of the selection rule, for messages."""
        return type(self).__name__

    def __call__(self, *, batch: dict[str, Any], episodes: Sequence[Any], **kwargs: Any) -> dict[str, Any]:
        """Writes ``participation_suggestion``; a batch without any, as of a step without agents, is unchanged."""
        suggestions = batch.get(SUGGESTION)
        if not suggestions:
            return batch
        order = order_of(suggestions)
        before = values_of(suggestions, order)
        scores = self.scores(before, order.agents, episodes[0].get_infos(-1))
        batch[SUGGESTION] = column_like(suggestions, order, np.where(before == -np.inf, -np.inf, scores))
        return batch

    def get_state(self, components: Any = None, *, not_components: Any = None, **kwargs: Any) -> dict[str, Any]:
        """Returns the state to keep in checkpoints."""
        return {} if self.keeps is None else self.keeps.get_state()

    def set_state(self, state: Mapping[str, Any]) -> None:
        """Restores the state that ``get_state`` returned; an empty one, which RLlib may pass, changes nothing."""
        if state:
            self.keeps.set_state(state)

    @abstractmethod
    def scores(
        self, suggestions: np.ndarray, agents: Sequence[str], infos: Mapping[str, Mapping[str, Any]]
    ) -> np.ndarray:
        """Returns the scores that replace the suggestions.

        Args:
            suggestions: ``[N]`` from the policies or the connectors before this one; not to be changed in place.
            agents: ``[N]`` ids of the live agents, in order.
            infos: Latest info by agent.

        Returns:
            ``float64[N]``; ``-inf`` for an agent that is no candidate.
        """
