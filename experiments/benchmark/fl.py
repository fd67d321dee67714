"""``python -m experiments.benchmark fl``: our FL round beside a bare PyTorch loop of the same work, in the same run."""

from __future__ import annotations

import argparse
import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from envs.config import FederationConfig
from envs.data.client_samples import DataShape, ResidentSamples, gather
from envs.data.datasets import Dataset, load_dataset
from envs.data.partition import Partition
from envs.rng import RoundKey
from envs.training import aggregation
from envs.training.executor import Executor
from envs.training.models import build_model, get_flat
from envs.training.serial_executor import SerialExecutor
from experiments.benchmark.bare_fl import BareLoop
from experiments.benchmark.measuring import median_ms, median_ratio, take_turns
from experiments.benchmark.result import Result, Row
from experiments.cli import add_data_dir, add_scenario, at_least
from experiments.results.naming import pluralize

MIN_ROUNDS = 20
#: Printed with figures; who divides the printed times gets something else.
MEDIANS = "medians of {} rounds in turns; ratios are medians of the rounds' ratios"
_BARE, _SERIAL = "bare loop", "serial"
#: So that Ray lets those live that wait for their turn; an actor that works has one thread whatever this says.
_CPUS_PER_ACTOR = 0.1


def add_parser(commands: Any) -> argparse.ArgumentParser:
    """Adds the sub-command."""
    parser = commands.add_parser("fl", help="our FL round against a bare PyTorch loop, serial and with actors")
    parser.set_defaults(run=fl)
    add_scenario(parser, default="fashion-mnist")
    add_data_dir(parser)
    add = parser.add_argument
    add("--clients", type=at_least(1), default=4, metavar="N", help="that train in a round; default: 4")
    add("--epochs", type=at_least(1), default=1, metavar="N", help="local epochs; default: 1")
    add("--actors", type=at_least(1), nargs="*", default=[2], metavar="N", help="numbers of actors; default: 2")
    add("--gpus-per-actor", type=float, metavar="X", help="default: an equal share of all")
    add("--device", default="cpu", help="of the bare loop and of serial; default: cpu")
    add(
        "--rounds", type=at_least(MIN_ROUNDS), default=MIN_ROUNDS, metavar="N", help=f"default: {MIN_ROUNDS}, the least"
    )
    return parser


def fl(arguments: argparse.Namespace) -> Result:
    """Median milliseconds of a round of ``--clients`` equal clients and the evaluation of all.

    All contestants take turns; ratios are medians over turns.
    """
    torch.set_num_threads(1)
    config = FederationConfig(
        **arguments.scenario.federation
        | {"data_dir": arguments.data_dir, "local_epochs": arguments.epochs, "device": arguments.device}
    )
    if arguments.clients > config.num_clients:
        raise ValueError(
            f"--clients is {arguments.clients}, but {arguments.scenario.name} has {config.num_clients}; lower it"
        )
    contestants, executors = _contestants(config, arguments)
    try:
        turns = take_turns(contestants, arguments.rounds)
    finally:
        for executor in executors:
            executor.close()
    rows: list[Row] = [
        {
            "round": name,
            "ms": median_ms(seconds),
            "x bare loop": median_ratio(seconds, turns[_BARE]),
            "x as fast as serial": median_ratio(turns[_SERIAL], seconds),
        }
        for name, seconds in turns.items()
    ]
    trained = f"{pluralize(arguments.clients, 'client')} train {pluralize(arguments.epochs, 'epoch')}"
    heading = f"fl: {arguments.scenario.name}, {trained}, all are evaluated; {MEDIANS.format(arguments.rounds)}"
    return Result(heading, rows)


def _contestants(
    config: FederationConfig, arguments: argparse.Namespace
) -> tuple[dict[str, Callable[[], Any]], list[Executor]]:
    """Name -> one round; and the executors behind them."""
    executors: dict[str, Executor] = {_SERIAL: SerialExecutor(config)}
    if arguments.actors:
        executors |= _actor_executors(config, arguments.actors, arguments.gpus_per_actor)
    dataset = load_dataset(config.dataset, config.data_dir)
    partition = Partition.of(config, dataset, seed=0)
    rounds = {_BARE: _bare_round(config, dataset, partition, arguments.clients)}
    for name, executor in executors.items():
        executor.assign(partition)
        rounds[name] = our_round(executor, config, get_flat(_model(config, dataset)), arguments.clients)
    return rounds, list(executors.values())


def _actor_executors(
    config: FederationConfig, numbers: Sequence[int], gpus_per_actor: float | None
) -> dict[str, Executor]:
    """An executor with each of these numbers of actors; all live at once and share the GPUs, but take turns."""
    from envs.training.ray_executor import RayExecutor, plan_here

    config = dataclasses.replace(
        config,
        executor="ray",
        device="cpu",
        num_actors=sum(numbers),
        cpus_per_actor=_CPUS_PER_ACTOR,
        gpus_per_actor=gpus_per_actor,
    )
    plan = plan_here(config.execution)
    return {
        pluralize(number, "actor"): RayExecutor(config, plan and dataclasses.replace(plan, num_actors=number))
        for number in numbers
    }


def _bare_round(
    config: FederationConfig, dataset: Dataset, partition: Partition, num_clients: int
) -> Callable[[], Any]:
    samples, max_value = gather(dataset, partition), DataShape.of(dataset).max_value
    train = ResidentSamples(samples.train, max_value, config.device)
    test = ResidentSamples(samples.test, max_value, config.device)
    clients = [train.of(client) for client in range(num_clients)]
    images, labels = zip(*(test.of(client) for client in range(config.num_clients)), strict=True)
    model = _model(config, dataset).to(config.device)
    loop = BareLoop(model, clients, (torch.cat(images), torch.cat(labels)))
    return lambda: loop.round(config.local_epochs, config.local_batch_size, config.learning_rate)


def our_round(executor: Executor, config: FederationConfig, weights: Tensor, num_clients: int) -> Callable[[], Any]:
    """One round of ``num_clients`` clients from what the last one led to, and the evaluation of all."""

    def one_round() -> None:
        nonlocal weights
        trained = executor.train(weights, range(num_clients), RoundKey(0, 0, 1), config.local_epochs)
        weights = aggregation.mean(trained)
        executor.accuracies(weights, range(config.num_clients))

    return one_round


def _model(config: FederationConfig, dataset: Dataset) -> nn.Module:
    return build_model(config.model_name, dataset.input_shape, len(dataset.classes))
