"""The same suggestion for all clients, so that a set score decides alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from bippo_rllib.selection.suggestion_connector import SuggestionConnector


class EvenSuggestions(SuggestionConnector):
    """Replaces every suggestion by 0.5, so that a set score decides alone.

    Pipeline: module-to-env, before a ``BudgetSamplerConnector`` with the strategy ``odds``.
    """

    def scores(
        self, suggestions: np.ndarray, agents: Sequence[str], infos: Mapping[str, Mapping[str, Any]]
    ) -> np.ndarray:
        """Returns even odds."""
        return np.full(len(agents), 0.5)
