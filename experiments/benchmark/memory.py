"""``python -m experiments.benchmark memory``: resident memory over the rounds of a run, driver and actors."""

from __future__ import annotations

import argparse
import os
from typing import TYPE_CHECKING, Any

import envs
from envs.config import FederationConfig, config_from
from experiments.benchmark.bippo_run import bippo_run, with_available_samples
from experiments.benchmark.measuring import resident_mib
from experiments.benchmark.result import Result, Row
from experiments.cli import at_least

if TYPE_CHECKING:
    from envs.training.ray_executor import RayExecutor

#: The round that later ones are compared with; by then everything has been used once.
WARM_ROUND = 20


def add_parser(commands: Any) -> argparse.ArgumentParser:
    """Adds the sub-command."""
    parser = commands.add_parser("memory", help="resident memory of driver and actors over the rounds of a run")
    parser.set_defaults(run=memory)
    add = parser.add_argument
    add("--clients", type=at_least(1), default=200, metavar="N", help="default: 200")
    add("--actors", type=at_least(1), default=2, metavar="N", help="default: 2")
    more = f"default: 200; the last is compared with round {WARM_ROUND}"
    add("--rounds", type=at_least(WARM_ROUND + 1), default=200, metavar="N", help=more)
    return parser


def memory(arguments: argparse.Namespace) -> Result:
    """MiB of each process of one bippo run on digits, after round 20 and at the end."""
    federation = {
        "num_clients": arguments.clients,
        "num_actors": arguments.actors,
        "cpus_per_actor": 0.5,
        "rounds": arguments.rounds,
        "seed": 7,
    }
    warm, last = _resident_mib(with_available_samples(federation))
    rows: list[Row] = [
        {
            "process": name,
            f"MiB after round {WARM_ROUND}": warm[name],
            f"MiB after round {arguments.rounds}": last[name],
            "growth, %": 100 * (last[name] / warm[name] - 1),
        }
        for name in warm
    ]
    return Result(f"memory: {arguments.clients} clients, {arguments.rounds} rounds of bippo on digits", rows)


def _resident_mib(federation: dict[str, Any]) -> tuple[dict[str, float], dict[str, float]]:
    """By process, after the warm round and after the last one."""
    executors: list[RayExecutor] = []

    def new_executor(config: FederationConfig) -> RayExecutor:
        from envs.training.ray_executor import RayExecutor

        executors.append(RayExecutor(config))
        return executors[-1]

    def make_env(**keywords: Any) -> envs.FederatedRounds:
        return envs.FederatedRounds(config_from(**keywords), new_executor)

    def now() -> dict[str, float]:
        actors = {f"actor {number}": actor.pid for number, actor in enumerate(executors[-1].actors)}
        return {name: resident_mib(pid) for name, pid in {"driver": os.getpid(), **actors}.items()}

    with bippo_run(make_env, federation) as algo:
        for _ in range(WARM_ROUND):
            algo.train()
        warm = now()
        for _ in range(federation["rounds"] - WARM_ROUND):
            algo.train()
        return warm, now()
