"""A federation that trains nothing, for tests of the rounds around the training."""

from __future__ import annotations

import dataclasses
import itertools

from null_executor import NullExecutor

import envs
from envs.config import FederationConfig, only_read
from envs.rules.churn import ChurnEvent

TINY = {"num_clients": 4, "train_samples": 20, "test_samples": 10, "rounds": 5, "budget_share": 0.6, "local_epochs": 1}
#: Client 3 joins late, 0 leaves and returns, 2 leaves for good.
EVENTS = tuple(ChurnEvent(*event) for event in ((1, 3, "join"), (1, 0, "leave"), (3, 0, "join"), (3, 2, "leave")))


class LoggingExecutor(NullExecutor):
    """Keeps whom it evaluated."""

    def __init__(self, config):
        super().__init__(config)
        self.evaluated = []

    def accuracies(self, weights, clients):
        self.evaluated.append(tuple(clients))
        return super().accuracies(weights, clients)


class MeteredExecutor(NullExecutor):
    """Each training takes the next of ``JOULES``."""

    JOULES = itertools.repeat(1.0)

    def train_each(self, weights, clients, key, epochs):
        updates = super().train_each(weights, clients, key, epochs)
        return {
            client: dataclasses.replace(update, readings_j=((client, next(self.JOULES)),))
            for client, update in updates.items()
        }


def quick(executor=LoggingExecutor, **fields):
    return envs.FederatedRounds(FederationConfig(**only_read(TINY | fields)), executor)
