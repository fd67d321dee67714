"""`python -m experiments.benchmark null-clients`: what a round in actors costs when training costs nothing."""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch

from envs.config import FederationConfig
from envs.data.partition import Partition
from envs.rng import RoundKey
from envs.training import aggregation
from envs.training.client_worker import ClientWorker
from envs.training.models import build_model, get_flat
from experiments.benchmark.fl import MIN_ROUNDS, RATIOS

#: Share of the clients that train, above the few of the smallest federation.
_SHARE, _LEAST = 0.1, 3


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


def add_parser(commands: Any) -> None:
    """Add the sub-command."""
    parser = commands.add_parser("null-clients", help="milliseconds of a round in actors that trains nothing")
    parser.set_defaults(benchmark=null_clients, text=text)
    parser.add_argument(
        "--clients", type=int, nargs="+", default=[20, 200, 1000], metavar="N", help="default: 20 200 1000"
    )
    parser.add_argument("--actors", type=int, default=2, metavar="N", help="default: 2")
    parser.add_argument("--rounds", type=int, default=100, metavar="N", help="default: 100")


def null_clients(arguments: argparse.Namespace) -> dict[str, Any]:
    """Median milliseconds of the round's FL part (train, average, evaluate), and of bare Ray with the same traffic.

    Bare Ray is one `put` of the weights, one call per actor and one result per actor. Both take turns; the ratio is the
    median over turns. 10 % of the clients train, at least 3.
    """
    if arguments.rounds < MIN_ROUNDS:
        raise ValueError(f"--rounds is {arguments.rounds}; a median needs at least {MIN_ROUNDS}")
    torch.set_num_threads(1)
    return {
        "benchmark": "null-clients",
        "actors": arguments.actors,
        "rounds": arguments.rounds,
        "federations": [_measure(number, arguments.actors, arguments.rounds) for number in arguments.clients],
    }


def _measure(num_clients: int, num_actors: int, rounds: int) -> dict[str, Any]:
    import ray

    from envs.training.ray_executor import RayExecutor

    # Real digits, but each client has one sample; there are not enough for a thousand, and nobody looks at them.
    config = FederationConfig(executor="ray", num_clients=num_clients, num_actors=num_actors, cpus_per_actor=0.5)
    executor = RayExecutor(config, worker_class=NullWorker)
    executor.assign(_one_sample_each(num_clients))
    weights = get_flat(build_model(config.model_name, (1, 8, 8), 10))
    selected = range(max(_LEAST, round(_SHARE * num_clients)))
    actors = [ray.remote(BareActor).options(num_cpus=0).remote(len(weights)) for _ in range(num_actors)]

    def bare() -> None:
        sent = ray.put(weights.numpy())
        ray.get([actor.work.remote(sent) for actor in actors])

    def ours() -> None:
        nonlocal weights
        weights = aggregation.mean(executor.train(weights, selected, RoundKey(0, 0, 1), epochs=1))
        executor.accuracies(weights, range(num_clients))

    pairs = [(_seconds(bare), _seconds(ours)) for _ in range(rounds + 5)][5:]
    executor.close()
    return {
        "clients": num_clients,
        "selected": len(selected),
        "bare_ray_ms": 1000 * statistics.median(pair[0] for pair in pairs),
        "round_ms": 1000 * statistics.median(pair[1] for pair in pairs),
        "ratio": statistics.median(pair[1] / pair[0] for pair in pairs),
    }


def _one_sample_each(num_clients: int) -> Partition:
    indices = tuple(np.array([client % 500]) for client in range(num_clients))
    return Partition(indices, indices, ((),) * num_clients)


def _seconds(act: Callable[[], None]) -> float:
    started = time.perf_counter()
    act()
    return time.perf_counter() - started


def text(record: dict[str, Any]) -> str:
    """What is printed."""
    actors, rounds = record["actors"], record["rounds"]
    lines = [f"null-clients: {actors} actors, median of {rounds} rounds in turns; {RATIOS}", ""]
    for found in record["federations"]:
        lines.append(
            f"{found['clients']:5d} clients, {found['selected']:4d} train   round {found['round_ms']:8.2f} ms   "
            f"bare Ray {found['bare_ray_ms']:8.2f} ms   ratio {found['ratio']:5.2f}"
        )
    return "\n".join(lines)
