"""The representativeness prior: adjusts the policies' suggestions by what clients report."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from bippo_rllib.selection.connector_columns import finite_info_values
from bippo_rllib.selection.representativeness import Prior
from bippo_rllib.selection.suggestion_connector import SuggestionConnector


class RepresentativenessPrior(SuggestionConnector):
    """Raises the suggestions of clients whose reports follow the mean of all clients, and lowers the others.

    ``suggestion <- sigmoid(gain * logit(suggestion) + weight * z)``, with ``z`` from ``Representativeness``. Not part
    of the paper's method. Related: "Emulating Full Participation" (arXiv:2405.13584) selects the clients whose
    gradients together come closest to the mean gradient; here one reported number is enough. The prior measures how
    clients differ, not whether their data is right, which is left to the policies, and it trusts reports: a client that
    reports the mean of the others looks representative.

    Pipeline: module-to-env, before the ``BudgetSamplerConnector``, where ``BippoConfig.selection(prior_weight=...)``
    puts it. Needs in the batch: ``participation_suggestion`` of every agent, a probability (``-inf``, no candidate,
    stays as it is). Needs in every agent's latest info: the report. Writes ``participation_suggestion``.

    Reports are recorded in every step, exploring or not, and across episodes; the records are in checkpoints.

    Args:
        key: Info key of the reported number, such as their accuracy; a finite number in every info, in any unit.
        weight: Weight of ``z``; a negative one prefers unrepresentative clients.
        gain: Factor of the policies' logits; at 0 the prior decides alone.
        only_lowers: Whether suggestions above one half count as one half, so that policies can only lower a
            client's chances.
        standardised: Whether ``z`` is standardised over the live clients, or else the logarithm of a ratio, which
            stays small where clients hardly differ.
        client_of: Agent id -> client, whose record is continued when it returns under another agent id. By default
            every agent id is a client.

    Attributes:
        prior: The rule and its record.
        client_of: The function above.
    """

    def __init__(
        self,
        *,
        key: str = "accuracy",
        weight: float = 2.0,
        gain: float = 1.0,
        only_lowers: bool = False,
        standardised: bool = True,
        client_of: Callable[[Any], str] = str,
    ) -> None:
        super().__init__()
        self.prior = Prior(key, weight, gain, only_lowers, standardised)
        self.client_of = client_of
        self.keeps = self.prior.record

    def scores(
        self, suggestions: np.ndarray, agents: Sequence[str], infos: Mapping[str, Mapping[str, Any]]
    ) -> np.ndarray:
        """Records the reports and adjusts the suggestions."""
        probabilities = _checked_probabilities(suggestions, agents)
        reports = finite_info_values(infos, agents, self.prior.key, "BippoConfig.selection(prior_key=...)")
        return self.prior.scores(probabilities, [self.client_of(agent_id) for agent_id in agents], reports)


def _checked_probabilities(suggestions: np.ndarray, agents: Sequence[str]) -> np.ndarray:
    suggestions = np.asarray(suggestions, dtype=np.float64)
    fine = (suggestions == -np.inf) | ((suggestions >= 0.0) & (suggestions <= 1.0))
    if not fine.all():
        first = int(np.flatnonzero(~fine)[0])
        raise ValueError(
            f"the participation suggestion of {agents[first]!r} is {suggestions[first]}; a prior adjusts probabilities "
            "in [0, 1]; put connectors that write other scores behind it, or leave it out"
        )
    return suggestions
