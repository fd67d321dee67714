"""`python -m experiments.benchmark memory`: resident memory over the rounds of a run, driver and actors."""

from __future__ import annotations

import argparse
import os
from typing import Any

from experiments.overhead.measure import resident_mib

#: The round that later ones are compared with; by then everything has been used once.
WARM_ROUND = 20


def add_parser(commands: Any) -> None:
    """Add the sub-command."""
    parser = commands.add_parser("memory", help="resident memory of driver and actors over the rounds of a run")
    parser.set_defaults(benchmark=memory, text=text)
    parser.add_argument("--clients", type=int, default=200, metavar="N", help="default: 200")
    parser.add_argument("--actors", type=int, default=2, metavar="N", help="default: 2")
    parser.add_argument("--rounds", type=int, default=200, metavar="N", help="default: 200")


def memory(arguments: argparse.Namespace) -> dict[str, Any]:
    """MB of each process of one bippo run on digits, after round 20 and at the end."""
    if arguments.rounds <= WARM_ROUND:
        raise ValueError(f"--rounds is {arguments.rounds}; it must be above {WARM_ROUND}, which it is compared with")
    from experiments.study.row_callback import TrialInfo
    from experiments.study.run import quiet, start_ray
    from experiments.study.trial import bippo_config

    quiet()
    import torch

    torch.set_num_threads(1)
    start_ray(parallel_trials=None)
    federation = {
        "num_clients": arguments.clients,
        "train_samples": max(1, 1200 // arguments.clients),
        "test_samples": max(1, 500 // arguments.clients),
        "executor": "ray",
        "num_actors": arguments.actors,
        "cpus_per_actor": 0.5,
    }
    algo = bippo_config(TrialInfo("digits", "bippo", 7), federation, {}, arguments.rounds).build_algo()
    try:
        algo.train()
        executor = algo.parallel_env._federation._executor
        pids = {"driver": os.getpid(), **{f"actor {n}": a.pid for n, a in enumerate(executor.actors)}}
        resident = [{name: resident_mb(pid) for name, pid in pids.items()}]
        for _ in range(arguments.rounds - 1):
            algo.train()
            resident.append({name: resident_mb(pid) for name, pid in pids.items()})
    finally:
        algo.stop()
    warm, last = resident[WARM_ROUND - 1], resident[-1]
    return {
        "benchmark": "memory",
        "num_clients": arguments.clients,
        "rounds": arguments.rounds,
        "warm_mb": warm,
        "last_mb": last,
        "growth_percent": {name: 100 * (last[name] / warm[name] - 1) for name in pids},
    }


def resident_mb(pid: int) -> float:
    """Resident memory of a process in megabytes."""
    return resident_mib(pid) * 2**20 / 1e6


def text(record: dict[str, Any]) -> str:
    """What is printed."""
    lines = [f"memory: {record['num_clients']} clients, {record['rounds']} rounds of bippo on digits", ""]
    for name, percent in record["growth_percent"].items():
        warm, last = record["warm_mb"][name], record["last_mb"][name]
        lines.append(f"{name:<8} round {WARM_ROUND} {warm:7.1f} MB   last {last:7.1f} MB   {percent:+5.1f} %")
    return "\n".join(lines)
