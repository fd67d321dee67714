"""``python -m experiments.benchmark churn``: do rounds stay as fast and memory as small while clients come and go?"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Mapping, Sequence
from typing import Any

import envs
from envs.config import config_from
from experiments.benchmark.bippo_run import bippo_run, with_available_samples
from experiments.benchmark.measuring import resident_mib
from experiments.benchmark.null_executor import NullExecutor
from experiments.benchmark.result import Result, Row
from experiments.cli import add_data_dir, add_scenario, add_seed, at_least

MIN_ROUNDS = 30
#: How often as much there may be in the last third of the run as in the second; the first one also warms up and grows
#: the bank. Time is the CPU's, which a machine that is busy with other things does not change much.
MAX_GROWTH = {"CPU ms": 1.3, "MiB": 1.05}


def add_parser(commands: Any) -> argparse.ArgumentParser:
    """Adds the sub-command."""
    parser = commands.add_parser("churn", help="time and memory per round while clients come and go")
    parser.set_defaults(run=churn)
    add_scenario(parser, default="digits")
    add_data_dir(parser)
    add_seed(parser)
    add = parser.add_argument
    add("--clients", type=at_least(1), default=200, metavar="N", help="default: 200")
    add("--rounds", type=at_least(MIN_ROUNDS), default=300, metavar="N", help=f"default: 300; at least {MIN_ROUNDS}")
    add("--leave-rate", type=float, default=0.1, metavar="P", help="per round; default: 0.1")
    add("--return-rate", type=float, default=0.3, metavar="P", help="per round; default: 0.3")
    add("--null-training", action="store_true", help="clients train nothing: bookkeeping alone")
    return parser


def churn(arguments: argparse.Namespace) -> Result:
    """Runs bippo under random churn in this process and compares the thirds of the run."""
    federation = {
        **arguments.scenario.federation,
        "data_dir": arguments.data_dir,
        "num_clients": arguments.clients,
        "rounds": arguments.rounds,
        "seed": arguments.seed,
        "churn_leave_rate": arguments.leave_rate,
        "churn_return_rate": arguments.return_rate,
    }
    make_env = null_training_env if arguments.null_training else envs.parallel_env
    with bippo_run(make_env, with_available_samples(federation)) as algo:
        rounds = [_round(algo) for _ in range(arguments.rounds)]
    heading = (
        f"churn: {arguments.scenario.name}, {arguments.clients} clients, "
        f"{arguments.rounds} rounds, {sum(found['joined'] for found in rounds)} joins"
    )
    return compare_thirds(heading + (", nothing is trained" if arguments.null_training else ""), rounds)


def null_training_env(**config: Any) -> envs.FederatedRounds:
    """As ``envs.parallel_env``, without any training."""
    return envs.FederatedRounds(config_from(**config), NullExecutor)


def _round(algo: Any) -> dict[str, float]:
    """One ``train()``: its time, the memory of the process after it, and clients."""
    start, cpu_start = time.perf_counter(), time.process_time()
    algo.train()
    seconds, cpu_seconds = time.perf_counter() - start, time.process_time() - cpu_start
    last = algo.parallel_env.last_round
    clients = {"live": len(last.clients), "joined": len(last.joined), "trained": len(last.trained)}
    return {"ms": 1000 * seconds, "CPU ms": 1000 * cpu_seconds, "MiB": resident_mib(), **clients}


def compare_thirds(heading: str, rounds: Sequence[Mapping[str, float]]) -> Result:
    """Medians over each third of the rounds, the last third over the second, and what of it is above ``MAX_GROWTH``."""
    size = len(rounds) // 3
    first, second, last = (
        {title: statistics.median(found[title] for found in part) for title in rounds[0]}
        for part in (rounds[:size], rounds[size : 2 * size], rounds[2 * size :])
    )
    growth = {title: last[title] / second[title] if second[title] else None for title in second}
    rows: dict[str, Row] = {"first": first, "second": second, "last": last, "last : second": growth}
    failures = [
        f"{title} grew {last[title] / second[title]:.3f}x from the second to the last third, more than {limit}x"
        for title, limit in MAX_GROWTH.items()
        if last[title] > limit * second[title]
    ]
    return Result(heading, [{"third of the run": name, **row} for name, row in rows.items()], failures)
