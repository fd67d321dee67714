"""What pieces before the budget sampler share: other scores in the place of participation suggestions."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from ray.rllib.connectors.connector_v2 import ConnectorV2

from bippo_rllib.selection.connector_columns import SUGGESTION, column_like, order_of, values_of


class SuggestionPiece(ConnectorV2):
    """A module-to-env piece before the ``BudgetSamplerConnector`` that rewrites ``participation_suggestion``."""

    @property
    def rule_name(self) -> str:
        """What decides in it, for messages."""
        return type(self).__name__

    def __call__(self, *, batch: dict[str, Any], episodes: Sequence[Any], **kwargs: Any) -> dict[str, Any]:
        """Writes ``participation_suggestion``; a batch without it, as in a step that nobody acts in, is left alone."""
        suggestions = batch.get(SUGGESTION)
        if not suggestions:
            return batch
        order = order_of(suggestions)
        scores = self.scores(values_of(suggestions, order), order.agents, episodes[0].get_infos(-1))
        batch[SUGGESTION] = column_like(suggestions, order, scores)
        return batch

    @abstractmethod
    def scores(
        self, suggestions: np.ndarray, agents: Sequence[str], infos: Mapping[str, Mapping[str, Any]]
    ) -> np.ndarray:
        """What takes the place of the suggestions.

        Args:
            suggestions: ``[N]`` as the policies, or the pieces before this one, wrote them; not to be changed in place.
            agents: ``[N]`` ids of the agents that act, in order.
            infos: Latest info by agent.

        Returns:
            ``float64[N]``; ``-inf`` for an agent that is no candidate.
        """
