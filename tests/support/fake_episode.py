"""All that a connector reads of an episode and a batch."""

from __future__ import annotations

import numpy as np

from bippo_rllib.policies.agents import policy_of
from bippo_rllib.selection.connector_columns import SUGGESTION


class Episode:
    """Has the infos of the last step."""

    def __init__(self, infos):
        self._infos = infos

    def get_infos(self, indices):
        return self._infos


def adjusted(connector, infos, suggestions=None):
    """Returns the scores that a connector makes of suggestions, 0.5 unless they are given, by agent."""
    suggestions = dict.fromkeys(infos, 0.5) | (suggestions or {})
    batch = {SUGGESTION: {("episode", a, policy_of(a)): [np.float32(s)] for a, s in suggestions.items()}}
    batch = connector(rl_module=None, batch=batch, episodes=[Episode(infos)], explore=True)
    return {key[1]: value for key, (value,) in batch[SUGGESTION].items()}
