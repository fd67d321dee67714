"""`python -m experiments.benchmark churn`: do rounds stay as fast and memory as small while clients come and go?"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from torch import Tensor

import envs
from envs.config import FederationConfig, config_from
from envs.data.datasets import load_dataset
from envs.data.partition import Partition
from envs.rng import RoundKey
from envs.training import aggregation
from experiments.overhead.measure import resident_mib
from experiments.results.naming import look_up
from experiments.scenarios import SCENARIOS
from experiments.study.run import quiet, start_ray

MIN_ROUNDS = 30
MAX_MEMORY_GROWTH = 1.05
MAX_TIME_GROWTH = 1.3
"""Limits of the last third over the second; the first one also warms up and grows the bank."""


class NullExecutor:
    """Trains nothing: the model stays as it is and accuracies are drawn, so that only the bookkeeping is left."""

    def __init__(self, config: FederationConfig) -> None:
        self._rng = np.random.default_rng(config.seed)

    def assign(self, partition: Partition) -> None:
        """Needs no data."""

    def train(self, weights: Tensor, clients: Sequence[int], key: RoundKey, epochs: int) -> aggregation.WeightedSum:
        """Every client returns the weights it was given."""
        return aggregation.merged(aggregation.weighted(weights, 1) for _ in clients)

    def accuracies(self, weights: Tensor, clients: Sequence[int]) -> np.ndarray:
        """`float64[len(clients)]`, uniform in [0, 1)."""
        return self._rng.random(len(clients))

    def losses(self, weights: Tensor, clients: Sequence[int]) -> np.ndarray:
        """Likewise."""
        return self._rng.random(len(clients))

    def close(self) -> None:
        """Has no workers to end."""


def null_training_env(**config: Any) -> envs.FederatedRounds:
    """As `envs.parallel_env`, without any training."""
    return envs.FederatedRounds(config_from(**config), NullExecutor)


@dataclass(frozen=True)
class RoundCost:
    """Wall and CPU time of one `train()`, memory of the process after it, and what churn did in it."""

    seconds: float
    cpu_seconds: float
    resident_mib: float
    live: int
    joined: int
    trained: int


def churn(arguments: argparse.Namespace) -> dict[str, Any]:
    """Runs bippo under random churn in this process and compares the thirds of the run."""
    if arguments.rounds < MIN_ROUNDS:
        raise ValueError(f"--rounds is {arguments.rounds}; three thirds need at least {MIN_ROUNDS}")
    scenario = look_up("scenario", arguments.scenario, SCENARIOS)
    data_dir = {} if arguments.data_dir is None else {"data_dir": str(arguments.data_dir)}
    rates = {"churn_leave_rate": arguments.leave_rate, "churn_return_rate": arguments.return_rate}
    federation = {**scenario.federation, **data_dir, **rates, "num_clients": arguments.clients}
    federation |= {"rounds": arguments.rounds, "seed": arguments.seed, **_samples_that_there_are(federation)}
    factory = null_training_env if arguments.null_training else envs.parallel_env
    factory(**federation)  # what does not fit together is found out before anything is started
    costs = _run(factory, federation, arguments.rounds, arguments.seed)
    return {
        "benchmark": "churn",
        "scenario": scenario.name,
        "training": "nothing is trained" if arguments.null_training else "real training",
        "num_clients": arguments.clients,
        "rounds": arguments.rounds,
        **rates,
        "joins": sum(cost.joined for cost in costs),
        "mean_live": statistics.fmean(cost.live for cost in costs),
        **compared(costs),
    }


def _samples_that_there_are(federation: dict[str, Any]) -> dict[str, int]:
    """Samples per client: the scenario's, or fewer where the data set does not hold that many for so many clients."""
    config = config_from(**federation)
    data = load_dataset(config.dataset, config.data_dir)
    asked = {"train_samples": config.train_sizes[0], "test_samples": config.test_sizes[0]}
    held = {"train_samples": len(data.train_labels), "test_samples": len(data.test_labels)}
    return {name: max(1, min(asked[name], held[name] // config.num_clients)) for name in asked}


def _run(factory: Any, federation: dict[str, Any], rounds: int, seed: int) -> list[RoundCost]:
    quiet()
    import ray
    import torch

    from bippo_rllib import BippoConfig

    started_ray = start_ray(parallel_trials=1)
    torch.set_num_threads(1)
    algo = BippoConfig().environment(factory, env_config=federation).debugging(seed=seed).build_algo()
    try:
        return [_round(algo) for _ in range(rounds)]
    finally:
        algo.stop()
        if started_ray:
            ray.shutdown()


def _round(algo: Any) -> RoundCost:
    start, cpu_start = time.perf_counter(), time.process_time()
    algo.train()
    seconds, cpu_seconds = time.perf_counter() - start, time.process_time() - cpu_start
    last = algo.parallel_env.last_round
    return RoundCost(seconds, cpu_seconds, resident_mib(), len(last.clients), len(last.joined), len(last.trained))


def compared(costs: Sequence[RoundCost]) -> dict[str, Any]:
    """Medians over each third of the run, the last third over the second, and what of it is too much.

    Time is judged by the CPU's, which a machine that is busy with other things does not change much.
    """
    third = len(costs) // 3
    parts = [costs[:third], costs[third : 2 * third], costs[2 * third :]]
    wall_ms = [1000 * statistics.median(cost.seconds for cost in part) for part in parts]
    cpu_ms = [1000 * statistics.median(cost.cpu_seconds for cost in part) for part in parts]
    memory_mib = [statistics.median(cost.resident_mib for cost in part) for part in parts]
    trained = [statistics.fmean(cost.trained for cost in part) for part in parts]
    judged = (("CPU time", cpu_ms, MAX_TIME_GROWTH), ("memory", memory_mib, MAX_MEMORY_GROWTH))
    return {
        "wall_ms": wall_ms,
        "cpu_ms": cpu_ms,
        "resident_mib": memory_mib,
        "trained": trained,
        "failures": [
            f"{what} grew {values[2] / values[1]:.3f}x from the second to the last third, more than {limit}x"
            for what, values, limit in judged
            if values[2] > limit * values[1]
        ],
    }


_LINES = (
    ("ms per round", "wall_ms"),
    ("CPU ms per round", "cpu_ms"),
    ("memory, MiB", "resident_mib"),
    ("clients trained", "trained"),
)


def text(record: dict[str, Any]) -> str:
    """The record for a terminal."""
    heading = (
        f"churn: {record['scenario']}, {record['num_clients']} clients (on average {record['mean_live']:.0f} live), "
    )
    heading += f"{record['rounds']} rounds, {record['joins']} joins, {record['training']}"
    lines = [heading, "", f"{'third of the run':<22}{'first':>10}{'second':>10}{'last':>10}   last / second"]
    for label, name in _LINES:
        first, second, last = record[name]
        lines.append(f"{label:<22}{first:>10.1f}{second:>10.1f}{last:>10.1f}   {last / second:.3f}")
    return "\n".join([*lines, *(f"error: {failure}" for failure in record["failures"])])


def add_parser(commands: Any) -> None:
    """The sub-command's arguments."""
    parser = commands.add_parser("churn", help="time and memory per round while clients come and go")
    parser.set_defaults(benchmark=churn, text=text)
    parser.add_argument("--clients", type=int, default=200, metavar="N", help="default: 200")
    parser.add_argument("--rounds", type=int, default=300, metavar="N", help=f"default: 300; at least {MIN_ROUNDS}")
    parser.add_argument("--leave-rate", type=float, default=0.1, metavar="P", help="per round; default: 0.1")
    parser.add_argument("--return-rate", type=float, default=0.3, metavar="P", help="per round; default: 0.3")
    parser.add_argument("--null-training", action="store_true", help="clients train nothing: bookkeeping alone")
    parser.add_argument("--scenario", default="digits", metavar="NAME", help="default: digits")
    parser.add_argument("--seed", type=int, default=7, metavar="N", help="default: 7")
    parser.add_argument("--data-dir", type=Path, metavar="DIR", help="where the data lies; default: $BIPPO_DATA")
