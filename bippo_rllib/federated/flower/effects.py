"""The effect of each participant of a round on the mean accuracy: leave-one-out, or its Shapley value."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Mapping
from typing import Any

from flwr.app import ArrayRecord

from bippo_rllib.federated.environment import shared
from bippo_rllib.federated.flower.coalition_models import CoalitionModels
from bippo_rllib.federated.reports import ClientReport

logger = logging.getLogger(__name__)

#: Reports of a model, by client.
Evaluation = Mapping[Any, ClientReport]
Coalition = frozenset[Any]

#: Shapley values of more than three participants are means over as many pairs of an order and its reverse.
SHAPLEY_PAIRS = 1


def leave_one_out(
    models: CoalitionModels,
    before: Evaluation,
    after: Evaluation | None,
    evaluate: Callable[[ArrayRecord], Evaluation],
) -> dict[Any, float]:
    """Returns by how much each participant raised the mean accuracy, over the clients that evaluated both models.

    A participant whose model was not evaluated by any client is left out: 0 would say that it had no effect.

    Args:
        models: Makes the models of some participants alone.
        before: Reports of the model before the round.
        after: Reports of the model of all participants; None to evaluate it.
        evaluate: Model -> reports of it. It is called once for each participant if there are several.
    """
    everybody = frozenset(models.participants)
    values = _Evaluations(models, before, after, evaluate)
    found = {}
    for client in models.participants:
        with_all, without = values[everybody], values[everybody - {client}]
        if both := with_all.keys() & without.keys():
            found[client] = _mean(with_all, both) - _mean(without, both)
    return found


def shapley(
    models: CoalitionModels,
    before: Evaluation,
    after: Evaluation | None,
    evaluate: Callable[[ArrayRecord], Evaluation],
    server_round: int,
) -> dict[Any, float]:
    """Returns each participant's Shapley value of the mean accuracy, over the clients that evaluated all models.

    Up to three participants they are exact; beyond, orders of the participants are drawn, by the round alone. Arguments
    are those of ``leave_one_out``. Returns nothing if a model was not evaluated by any client.
    """
    rules = shared("rules.shapley")
    key = shared("rng").RoundKey(seed=0, episode=0, round=server_round)
    drawn = rules.orders(range(len(models.participants)), key, SHAPLEY_PAIRS)
    values, everybody = _Evaluations(models, before, after, evaluate), frozenset(range(len(models.participants)))
    reports = {
        coalition: values[frozenset(models.participants[index] for index in coalition)]
        for coalition in (frozenset[int](), *rules.coalitions(drawn), everybody)
    }
    common = set.intersection(*(set(evaluation) for evaluation in reports.values()))
    if not common or not models.participants:
        return {}
    means = {coalition: _mean(evaluation, common) for coalition, evaluation in reports.items()}
    return {models.participants[index]: value for index, value in rules.shapley_values(drawn, means).items()}


class _Evaluations:
    """Reports of each coalition's model, which is made and evaluated on first use."""

    def __init__(
        self,
        models: CoalitionModels,
        before: Evaluation,
        after: Evaluation | None,
        evaluate: Callable[[ArrayRecord], Evaluation],
    ) -> None:
        self._models, self._before, self._evaluate = models, before, evaluate
        self._known: dict[Coalition, Evaluation] = {frozenset[Any](): before}
        if after is not None:
            self._known[frozenset(models.participants)] = after

    def __getitem__(self, coalition: Coalition) -> Evaluation:
        if coalition not in self._known:
            self._known[coalition] = self._evaluation(coalition)
        return self._known[coalition]

    def _evaluation(self, coalition: Coalition) -> Evaluation:
        try:
            model = self._models.of(coalition)
        except Exception as error:  # of the strategy, whichever it is
            logger.warning("no model of %s alone: %s: %s", sorted(coalition, key=str), type(error).__name__, error)
            return {}
        return self._before if model is None else self._evaluate(model)


def _mean(evaluation: Evaluation, clients: Collection[Any]) -> float:
    return sum(evaluation[client].accuracy for client in sorted(clients, key=str)) / len(clients)
