"""Models averaged over some of a round's participants, as the strategy averages."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

from flwr.app import ArrayRecord, Message
from flwr.serverapp.strategy import FedAdagrad, FedAdam, FedAvg, FedAvgM, FedYogi, Strategy
from flwr.serverapp.strategy.strategy_utils import aggregate_arrayrecords

#: They average as FedAvg does, and take a step of an optimiser, with moments, towards the average.
SERVER_OPTIMISERS = (FedAdagrad, FedAdam, FedAvgM, FedYogi)


def steps_on_server(strategy: Strategy) -> bool:
    """Returns whether a round's model is not the average of the replies, but an optimiser's step towards it."""
    return isinstance(strategy, SERVER_OPTIMISERS)


class CoalitionModels:
    """Keeps a round's replies, and averages the model of any coalition of participants on demand.

    FedAvg and strategies like it average the replies themselves. Other strategies aggregate with a copy of what they
    were before the round, and of the replies, out of which some take the arrays.

    Args:
        strategy: The strategy before it aggregates the round.
        server_round: The round.
        replies: The replies to the training, by client.
    """

    def __init__(self, strategy: Strategy, server_round: int, replies: Mapping[Any, Message]) -> None:
        self._averages = steps_on_server(strategy) or type(strategy).aggregate_train is FedAvg.aggregate_train
        self._strategy = strategy if self._averages else copy.deepcopy(strategy)
        self._round, self._replies = server_round, copy.deepcopy(dict(replies))

    @property
    def participants(self) -> list[Any]:
        """The clients whose replies are averaged, in an order of their own."""
        return sorted(self._replies, key=str)

    def of(self, coalition: frozenset[Any]) -> ArrayRecord | None:
        """Returns the model of a coalition of at least one client; None if the strategy makes none of its replies.

        Raises:
            Exception: Whatever the strategy raises at these replies.
        """
        replies = [self._replies[client] for client in self.participants if client in coalition]
        if self._averages:
            weight_key = getattr(self._strategy, "weighted_by_key")  # noqa: B009
            return aggregate_arrayrecords([reply.content for reply in replies], weight_key)
        return copy.deepcopy(self._strategy).aggregate_train(self._round, copy.deepcopy(replies))[0]
