"""What each participant of a round was worth: the accuracy with it minus that without it."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from typing import Any

from flwr.app import ArrayRecord, Message
from flwr.serverapp.strategy import Strategy

from bippo_rllib.federated.reports import ClientReport


def models_without(
    strategy: Strategy, server_round: int, replies: Mapping[Any, Message], before: ArrayRecord
) -> dict[Any, ArrayRecord]:
    """Returns for each client the model that ``strategy`` makes of the other clients' replies.

    Copies average copies, since strategies keep moments and some take the arrays out of the replies.

    Args:
        strategy: As it is before it aggregates the round.
        server_round: The round.
        replies: To the training, by client.
        before: The model before the round, which stays where the others alone make none.
    """
    models = {}
    for client in replies:
        others = [copy.deepcopy(reply) for other, reply in replies.items() if other != client]
        made = copy.deepcopy(strategy).aggregate_train(server_round, others)[0] if others else None
        models[client] = before if made is None else made
    return models


def effects(
    with_all: Mapping[Any, ClientReport],
    models: Mapping[Any, ArrayRecord],
    evaluate: Callable[[ArrayRecord], Mapping[Any, ClientReport]],
) -> dict[Any, float]:
    """Returns by how much each client raised the mean accuracy, over the clients that evaluated both models.

    A client whose model no client evaluated is left out: 0 would say that it was measured to have no effect.

    Args:
        with_all: Reports of the round's model.
        models: The model without each client.
        evaluate: Model -> reports of it.
    """
    found = {}
    for client, model in models.items():
        without = evaluate(model)
        if both := with_all.keys() & without.keys():
            found[client] = sum(
                with_all[other].accuracy - without[other].accuracy for other in sorted(both, key=str)
            ) / len(both)
    return found
