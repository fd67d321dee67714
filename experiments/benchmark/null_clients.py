"""``python -m experiments.benchmark null-clients``: what a round in actors costs when training costs nothing."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from envs.config import FederationConfig
from envs.data.partition import Partition
from envs.rng import RoundKey
from envs.training.client_worker import ClientWorker
from envs.training.models import build_model, get_flat
from experiments.benchmark.fl import MEDIANS, MIN_ROUNDS, our_round
from experiments.benchmark.measuring import median_ms, median_ratio, take_turns
from experiments.benchmark.result import Result, Row
from experiments.cli import at_least

#: Share of the clients that train, above the few of the smallest federation.
_SHARE, _LEAST = 0.1, 3
_WARM_UP = 5


class NullWorker(ClientWorker):
    """Loads weights, adds them up and sends them; only training and evaluating are left out."""

    def _fit(self, client: int, key: RoundKey, epochs: int) -> None:
        pass

    def _evaluate_group(self, clients: Sequence[int], training_samples: bool) -> np.ndarray:
        return np.zeros((2, len(clients)))


class BareActor:
    """Takes weights and returns a sum of their size, as an actor of ours does in a round."""

    def __init__(self, num_weights: int) -> None:
        self._sum = np.zeros(num_weights, dtype=np.int64)

    def work(self, weights: np.ndarray) -> np.ndarray:
        """The result of one call."""
        return self._sum


def add_parser(commands: Any) -> argparse.ArgumentParser:
    """Adds the sub-command."""
    parser = commands.add_parser("null-clients", help="milliseconds of a round in actors that trains nothing")
    parser.set_defaults(run=null_clients)
    add = parser.add_argument
    clients = [20, 200, 1000]
    add("--clients", type=at_least(_LEAST), nargs="+", default=clients, metavar="N", help="default: 20 200 1000")
    add("--actors", type=at_least(1), default=2, metavar="N", help="default: 2")
    add("--rounds", type=at_least(MIN_ROUNDS), default=100, metavar="N", help="default: 100")
    return parser


def null_clients(arguments: argparse.Namespace) -> Result:
    """Median milliseconds of the round's FL part (train, average, evaluate), and of bare Ray with the same traffic.

    Bare Ray is one ``put`` of the weights, one call per actor and one result per actor. Both take turns; the ratio is
    the median over turns. 10 % of the clients train, at least 3.
    """
    torch.set_num_threads(1)
    rows = [_measure(number, arguments.actors, arguments.rounds) for number in arguments.clients]
    return Result(f"null-clients: {arguments.actors} actors; {MEDIANS.format(arguments.rounds)}", rows)


def _measure(num_clients: int, num_actors: int, rounds: int) -> Row:
    import ray

    from envs.training.ray_executor import RayExecutor

    # Real digits, but each client has one sample; there are not enough for a thousand, and nobody looks at them.
    config = FederationConfig(executor="ray", num_clients=num_clients, num_actors=num_actors, cpus_per_actor=0.5)
    executor = RayExecutor(config, worker_class=NullWorker)
    executor.assign(_one_sample_each(num_clients))
    weights = get_flat(build_model(config.model_name, (1, 8, 8), 10))
    num_trained = max(_LEAST, round(_SHARE * num_clients))
    actors = [ray.remote(BareActor).options(num_cpus=0).remote(len(weights)) for _ in range(num_actors)]

    def bare() -> None:
        sent = ray.put(weights.numpy())
        ray.get([actor.work.remote(sent) for actor in actors])

    turns = take_turns({"bare": bare, "ours": our_round(executor, config, weights, num_trained)}, rounds, _WARM_UP)
    executor.close()
    return {
        "clients": num_clients,
        "trained": num_trained,
        "round, ms": median_ms(turns["ours"]),
        "bare Ray, ms": median_ms(turns["bare"]),
        "ratio": median_ratio(turns["ours"], turns["bare"]),
    }


def _one_sample_each(num_clients: int) -> Partition:
    indices = tuple(np.array([client % 500]) for client in range(num_clients))
    return Partition(indices, indices, ((),) * num_clients)
