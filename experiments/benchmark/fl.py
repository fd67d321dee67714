"""``bippo benchmark fl``: a round of federated training in our executors, beside a bare loop, pfl and Flower."""

from __future__ import annotations

import argparse
import dataclasses
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager, nullcontext
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch

from envs.config import FederationConfig
from envs.data.client_samples import DataShape, ResidentSamples, gather
from envs.data.datasets import Dataset, load_dataset
from envs.data.partition import Partition
from envs.rng import RoundKey
from envs.training import aggregation
from envs.training.executor import Executor
from envs.training.models import build_model, get_flat
from envs.training.ray_executor import RayExecutor
from envs.training.serial_executor import SerialExecutor
from experiments.benchmark.bare_fl import train_round
from experiments.benchmark.other_process import CLOCKS, CPU, OtherProcess
from experiments.benchmark.turns import chosen, take_turns, timed, to_markdown, write_table
from experiments.results.naming import pluralize

BARE, SERIAL, PFL, FLOWER = "bare loop", "serial", "pfl", "Flower"


def fl(arguments: argparse.Namespace) -> None:
    """Measures all implementations and prints the table; with ``--output`` writes fl-SCENARIO.json as well."""
    torch.set_num_threads(1)
    name, number = arguments.scenario.name, arguments.clients
    config = FederationConfig(
        **arguments.scenario.federation
        | {"data_dir": arguments.data_dir, "local_epochs": arguments.epochs, "device": arguments.device}
    )
    if number > config.num_clients:
        raise ValueError(f"--clients is {number}, but {name} has {config.num_clients}; lower it")
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        makers = _makers(config, arguments, Path(folder, "work.pt"))
        wanted = chosen(makers, arguments.only, _left_out(arguments))
        rounds = {name: stack.enter_context(make()) for name, make in wanted.items()}
        table = take_turns(rounds, arguments.seconds, [SERIAL, BARE])
    table = table.rename(columns={"ms per round": f"{'CPU ' * (arguments.clock == CPU)}ms per round"})
    table.insert(0, "round", f"{name}, {pluralize(number, 'client')}, {pluralize(arguments.epochs, 'epoch')}")
    print(to_markdown(table))
    if arguments.output:
        write_table(table, f"fl-{name}{'-cpu' * (arguments.clock == CPU)}", arguments.command, arguments.output)


def _pfl_python(arguments: argparse.Namespace) -> str:
    """Returns an absolute path; links stay, since a virtual environment's Python is one."""
    return str(Path(arguments.pfl_python or sys.executable).absolute())


def _left_out(arguments: argparse.Namespace) -> dict[str, str]:
    """Returns the libraries that cannot be measured, with the reason."""
    if arguments.device != "cpu":
        return dict.fromkeys([PFL, FLOWER], "it is measured on the CPU only")
    python, missing = _pfl_python(arguments), dict[str, str]()
    if arguments.clock == CPU:
        missing |= dict.fromkeys([pluralize(arguments.actors, "actor"), FLOWER], "it trains in other processes")
    if subprocess.run([python, "-c", "import pfl"], capture_output=True).returncode:
        missing[PFL] = f"{python} has no pfl; name one that has with --pfl-python"
    if FLOWER not in missing and find_spec("flwr") is None:
        missing[FLOWER] = "it is not installed; pip install flwr"
    return missing


def _makers(config: FederationConfig, arguments: argparse.Namespace, file: Path) -> dict[str, Callable[[], Any]]:
    """Returns name -> a function whose result is a context, in which a function runs a round and returns its seconds.

    What all of them train on is written to ``file``.
    """
    dataset = load_dataset(config.dataset, config.data_dir)
    partition = Partition.of(config, dataset, seed=0)
    work = _work(config, dataset, partition, arguments.clients)
    torch.save(work, file)
    weights, python = get_flat(work["model"]).cpu(), _pfl_python(arguments)
    clock = getattr(time, CLOCKS[arguments.clock])

    @contextmanager
    def ours(make: Callable[[FederationConfig], Executor], evaluated: int = 0, **changes: Any) -> Iterator[Any]:
        """Yields a function that runs a round on the result of the last one, and evaluates some clients."""
        changed, current = dataclasses.replace(config, **changes), weights

        def one_round() -> None:
            nonlocal current
            trained = executor.train(current, range(arguments.clients), RoundKey(0, 0, 1), config.local_epochs)
            current = aggregation.mean(trained)
            if evaluated:
                executor.accuracies(current, range(evaluated))

        with closing(make(changed)) as executor:
            executor.assign(partition)
            yield timed(one_round, clock=clock)

    return {
        BARE: lambda: nullcontext(timed(partial(train_round, **work), clock=clock)),
        SERIAL: partial(ours, SerialExecutor),
        f"{SERIAL}, profiles": partial(ours, SerialExecutor, update_profile_size=64),
        f"{SERIAL}, all evaluated": partial(ours, SerialExecutor, config.num_clients),
        pluralize(arguments.actors, "actor"): partial(
            ours, RayExecutor, executor="ray", device="cpu", num_actors=arguments.actors
        ),
        PFL: lambda: closing(OtherProcess(python, "pfl_rounds", file, CLOCKS[arguments.clock])),
        FLOWER: lambda: closing(OtherProcess(sys.executable, "flower_rounds", file)),
    }


def _work(config: FederationConfig, dataset: Dataset, partition: Partition, number: int) -> dict[str, Any]:
    """Returns the arguments of ``train_round`` for so many clients."""
    model = build_model(config.model_name, dataset.input_shape, len(dataset.classes))
    samples = ResidentSamples(gather(dataset, partition).train, DataShape.of(dataset).max_value, config.device)
    return {
        "model": model.to(config.device).to(memory_format=torch.channels_last),
        "clients": [samples.client(client) for client in range(number)],
        "epochs": config.local_epochs,
        "batch_size": config.local_batch_size,
        "lr": config.learning_rate,
    }
