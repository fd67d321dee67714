"""`python -m experiments.benchmark fl`: our FL round beside a bare PyTorch loop of the same work, in the same run."""

from __future__ import annotations

import argparse
import dataclasses
import statistics
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch

from envs.config import FederationConfig
from envs.data.client_samples import DataShape, ResidentSamples, gather
from envs.data.datasets import load_dataset
from envs.data.partition import Partition
from envs.rng import RoundKey
from envs.training import aggregation
from envs.training.executor import Executor
from envs.training.models import build_model, get_flat
from envs.training.serial_executor import SerialExecutor
from experiments.benchmark.bare_fl import VARIANTS, BareLoop, LoopOptions
from experiments.results.naming import look_up, pluralize
from experiments.scenarios import SCENARIOS

MIN_ROUNDS = 20
#: Printed with them: who divides the printed times gets something else.
RATIOS = "ratios are medians of the rounds' ratios"
_BARE, _SERIAL = "bare loop", "serial"
#: So that Ray lets those live that wait for their turn; an actor that works has one thread whatever this says.
_CPUS_PER_ACTOR = 0.1


def add_parser(commands: Any) -> None:
    """Add the sub-command."""
    parser = commands.add_parser("fl", help="our FL round against a bare PyTorch loop, serial and with actors")
    parser.set_defaults(benchmark=fl, text=text)
    parser.add_argument("--scenario", default="fashion-mnist", metavar="NAME", help="default: fashion-mnist")
    parser.add_argument("--data-dir", type=Path, metavar="DIR", help="where the data lies; default: $BIPPO_DATA")
    parser.add_argument("--clients", type=int, default=4, metavar="N", help="that train in a round; default: 4")
    parser.add_argument("--epochs", type=int, default=1, metavar="N", help="local epochs; default: 1")
    parser.add_argument("--actors", type=int, nargs="*", default=[2], metavar="N", help="numbers of actors; default: 2")
    parser.add_argument("--gpus-per-actor", type=float, metavar="X", help="default: an equal share of all")
    parser.add_argument("--device", default="cpu", help="of the bare loop and of serial; default: cpu")
    parser.add_argument("--rounds", type=int, default=MIN_ROUNDS, metavar="N", help=f"default: {MIN_ROUNDS}, the least")
    parser.add_argument("--variants", action="store_true", help="also time other ways to write the bare loop")


def fl(arguments: argparse.Namespace) -> dict[str, Any]:
    """Median milliseconds of a round of `--clients` equal clients and the evaluation of all.

    All contestants take turns, so that what else the machine does hits them alike; ratios are medians over turns.
    """
    if arguments.rounds < MIN_ROUNDS:
        raise ValueError(f"--rounds is {arguments.rounds}; a median needs at least {MIN_ROUNDS}")
    torch.set_num_threads(1)
    scenario = look_up("scenario", arguments.scenario, SCENARIOS)
    data_dir = {} if arguments.data_dir is None else {"data_dir": str(arguments.data_dir)}
    keywords = {**scenario.federation, **data_dir, "local_epochs": arguments.epochs, "device": arguments.device}
    config = FederationConfig(**keywords)
    rounds, executors = _contestants(config, arguments)
    try:
        turns = _take_turns(rounds, arguments.rounds)
    finally:
        for executor in executors:
            executor.close()
    return {
        "benchmark": "fl",
        "scenario": scenario.name,
        "clients": arguments.clients,
        "local_epochs": arguments.epochs,
        "rounds": arguments.rounds,
        "device": arguments.device,
        "milliseconds": {name: 1000 * statistics.median(seconds) for name, seconds in turns.items()},
        "of_bare_loop": {name: _ratio(seconds, turns[_BARE]) for name, seconds in turns.items()},
        "faster_than_serial": {name: _ratio(turns[_SERIAL], seconds) for name, seconds in turns.items()},
    }


def _contestants(
    config: FederationConfig, arguments: argparse.Namespace
) -> tuple[dict[str, Callable[[], Any]], list[Executor]]:
    """Name -> one round; and the executors behind them."""
    partition = _partition(config)
    bare = {"as envs": LoopOptions()} if not arguments.variants else VARIANTS
    rounds: dict[str, Callable[[], Any]] = {}
    for name, options in bare.items():
        rounds[_BARE if name == "as envs" else name] = _bare_round(config, partition, arguments.clients, options)
    executors: list[Executor] = [SerialExecutor(config)]
    rounds[_SERIAL] = _our_round(executors[0], config, partition, arguments.clients)
    if arguments.actors:
        executors += _actor_executors(config, arguments.actors, arguments.gpus_per_actor)
    for number, executor in zip(arguments.actors, executors[1:], strict=True):
        rounds[pluralize(number, "actor")] = _our_round(executor, config, partition, arguments.clients)
    return rounds, executors


def _actor_executors(config: FederationConfig, numbers: Sequence[int], gpus_per_actor: float | None) -> list[Executor]:
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
    return [RayExecutor(config, plan and dataclasses.replace(plan, num_actors=number)) for number in numbers]


def _partition(config: FederationConfig) -> Partition:
    return Partition.of(config, load_dataset(config.dataset, config.data_dir), seed=0)


def _bare_round(
    config: FederationConfig, partition: Partition, num_clients: int, options: LoopOptions
) -> Callable[[], float]:
    dataset = load_dataset(config.dataset, config.data_dir)
    shape, samples = DataShape.of(dataset), gather(dataset, partition)
    train = ResidentSamples(samples.train, shape.max_value, config.device)
    test = ResidentSamples(samples.test, shape.max_value, config.device)
    clients = [train.of(client) for client in range(num_clients)]
    images, labels = zip(*(test.of(client) for client in range(config.num_clients)), strict=True)
    model = build_model(config.model_name, shape.input_shape, shape.num_classes).to(config.device)
    loop = BareLoop(model, clients, (torch.cat(images), torch.cat(labels)), options)
    return lambda: loop.round(config.local_epochs, config.local_batch_size, config.learning_rate)


def _our_round(
    executor: Executor, config: FederationConfig, partition: Partition, num_clients: int
) -> Callable[[], None]:
    shape = DataShape.of(load_dataset(config.dataset, config.data_dir))
    executor.assign(partition)
    weights = [get_flat(build_model(config.model_name, shape.input_shape, shape.num_classes))]

    def one_round() -> None:
        trained = executor.train(weights[-1], range(num_clients), RoundKey(0, 0, 1), config.local_epochs)
        weights[:] = [aggregation.mean(trained)]
        executor.accuracies(weights[-1], range(config.num_clients))

    return one_round


def _take_turns(rounds: dict[str, Callable[[], Any]], count: int) -> dict[str, list[float]]:
    """Seconds of each, `count` times, after one round to warm up."""
    turns: dict[str, list[float]] = {name: [] for name in rounds}
    for turn in range(count + 1):
        for name, one_round in rounds.items():
            started = time.perf_counter()
            one_round()
            if turn:
                turns[name].append(time.perf_counter() - started)
    return turns


def _ratio(seconds: list[float], others: list[float]) -> float:
    return statistics.median(one / other for one, other in zip(seconds, others, strict=True))


def text(record: dict[str, Any]) -> str:
    """What is printed."""
    width = max(map(len, record["milliseconds"]))
    lines = [
        f"fl: {record['scenario']}, {record['clients']} clients train {record['local_epochs']} epoch(s), all are "
        f"evaluated; median of {record['rounds']} rounds in turns; {RATIOS}",
        "",
    ]
    for name, milliseconds in record["milliseconds"].items():
        lines.append(
            f"{name:<{width}} {milliseconds:10.1f} ms   {record['of_bare_loop'][name]:5.2f} x bare loop   "
            f"{record['faster_than_serial'][name]:5.2f} x as fast as serial"
        )
    return "\n".join(lines)
