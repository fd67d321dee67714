"""Ray actors that many executors share, so that a test of an executor does not start processes of its own."""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any

import ray

from envs.config import FederationConfig
from envs.data.client_samples import DataShape
from envs.data.datasets import load_dataset
from envs.training.actor_plan import ActorPlan
from envs.training.client_actor import ClientActor
from envs.training.client_worker import ClientWorker
from envs.training.ray_executor import RayExecutor

_numbers = itertools.count()


class OneFails(ClientWorker):
    """Client 2 runs out of memory in round 2, and client 5 becomes NaN in round 3."""

    def _fit(self, client, key, epochs):
        if (client, key.round) == (2, 2):
            raise MemoryError("no  memory\nleft")
        super()._fit(client, key, epochs)
        if (client, key.round) == (5, 3):
            next(self._model.parameters()).data[0] = math.nan


class Host:
    """Holds one ``ClientActor`` for each number, in one process."""

    def __init__(self) -> None:
        self._guests: dict[int, ClientActor] = {}

    def add(self, number: int, *arguments: Any) -> None:
        self._guests[number] = ClientActor(*arguments)

    def remove(self, number: int) -> None:
        del self._guests[number]

    def call(self, number: int, method: str, *arguments: Any) -> Any:
        return getattr(self._guests[number], method)(*arguments)


class Guest:
    """Looks like the handle of an actor of its own."""

    def __init__(self, host: Any, number: int) -> None:
        for method in ("info", "assign", "train", "train_each", "evaluate"):
            setattr(self, method, SimpleNamespace(remote=self._remote(host, number, method)))
        self._leave = functools.partial(host.remove.remote, number)

    def __del__(self) -> None:
        if ray.is_initialized():
            self._leave()

    @staticmethod
    def _remote(host: Any, number: int, method: str) -> Callable[..., Any]:
        return lambda *arguments: host.call.remote(number, method, *arguments)


def hosted_executor(
    hosts: Sequence[Any],
    config: FederationConfig,
    num_actors: int,
    worker_class: type[ClientWorker] = ClientWorker,
) -> RayExecutor:
    """A ``RayExecutor`` whose actors are guests, spread over the hosts."""
    shape = DataShape.of(load_dataset(config.dataset, config.data_dir))

    def new_actor(slot: int) -> Guest:
        number, host = next(_numbers), hosts[slot % len(hosts)]
        host.add.remote(number, config, shape, worker_class)
        return Guest(host, number)

    return RayExecutor(config, ActorPlan(num_actors, 0.1, 0.0), worker_class, new_actor)


def start_hosts(count: int) -> list[Any]:
    """Processes for guests; they take no core from the tests beside them."""
    ray.cloudpickle.register_pickle_by_value(__import__(__name__))
    return [ray.remote(Host).options(num_cpus=0).remote() for _ in range(count)]
