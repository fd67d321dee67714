"""`python -m experiments.benchmark BENCHMARK`: how long a round takes, and for what. Writes nothing unless `--json`.

Every benchmark is a sub-command: a parser whose defaults are `benchmark`, a function from its arguments to a record,
and `text`, one from a record to what is printed. `rl-overhead` is here, those of FL training in `fl`,
`null_clients`, `memory` and `churn`.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import envs
from experiments.benchmark import churn, fl, memory, null_clients
from experiments.results.files import check_writable
from experiments.results.naming import look_up
from experiments.scenarios import SCENARIOS
from experiments.study.run import quiet, start_ray

MIN_ROUNDS = 50


def rl_overhead(arguments: argparse.Namespace) -> dict[str, Any]:
    """Time that learning to select adds to an FL round: medians over the rounds of one bippo run in this process.

    `rl_seconds` is everything of `algo.train()` outside the environment's `reset` and `step`; the first round, which
    also warms up, is left out.
    """
    if arguments.rounds < MIN_ROUNDS:
        raise ValueError(f"--rounds is {arguments.rounds}; a median needs at least {MIN_ROUNDS}")
    scenario = look_up("scenario", arguments.scenario, SCENARIOS)
    data_dir = {} if arguments.data_dir is None else {"data_dir": str(arguments.data_dir)}
    federation = {**scenario.federation, **data_dir, "num_clients": arguments.clients}
    envs.parallel_env(**federation)  # missing data is found out before anything is started
    results = _run(scenario.name, federation, arguments.rounds + 1, arguments.seed)[1:]
    medians = {name: statistics.median(result[name] for result in results) for name in ("rl_seconds", "fl_seconds")}
    ratio = statistics.median(result["rl_seconds"] / result["fl_seconds"] for result in results)
    parts = {name: statistics.median(_part(result, path) for result in results) for name, path in _PARTS.items()}
    return {
        "benchmark": "rl-overhead",
        "scenario": scenario.name,
        "num_clients": arguments.clients,
        "rounds": len(results),
        **medians,
        "rl_percent_of_fl": 100 * ratio,
        "parts": {**parts, "rest_seconds": max(0.0, medians["rl_seconds"] - sum(parts.values()))},
    }


def _run(scenario: str, federation: dict[str, Any], rounds: int, seed: int) -> list[dict[str, Any]]:
    """Results of `rounds` calls of `algo.train()`, on one torch thread."""
    quiet()
    import ray
    import torch

    from experiments.study.row_callback import TrialInfo
    from experiments.study.trial import bippo_config

    started_ray = start_ray(parallel_trials=1)
    torch.set_num_threads(1)
    algo = bippo_config(TrialInfo(scenario, "bippo", seed), federation, {}, rounds).build_algo()
    try:
        return [algo.train() for _ in range(rounds)]
    finally:
        algo.stop()
        if started_ray:
            ray.shutdown()


_PARTS = {
    "policies_seconds": ("env_runners", "rlmodule_inference_timer"),
    "module_to_env_seconds": ("env_runners", "module_to_env_connector", "connector_pipeline_timer"),
    "learner_seconds": ("timers", "learner_update_timer"),
}
"""Where RLlib keeps the time of each part; its timers are running means, which is why the parts are only a guide."""


def _part(result: dict[str, Any], path: Sequence[str]) -> float:
    value: Any = result
    for key in path:
        value = value.get(key, {})
    return float(value) if isinstance(value, int | float) else 0.0


def _text(record: dict[str, Any]) -> str:
    fl_ms, rl_ms = 1000 * record["fl_seconds"], 1000 * record["rl_seconds"]
    clients, rounds = record["num_clients"], record["rounds"]
    lines = [
        f"{record['benchmark']}: {record['scenario']}, {clients} clients, median of {rounds} rounds",
        "",
        f"FL round                    {fl_ms:10.2f} ms",
        f"RL around it                {rl_ms:10.2f} ms = {record['rl_percent_of_fl']:.2f} % of the FL round",
    ]
    return "\n".join([*lines, *(_part_line(name, value) for name, value in record["parts"].items())])


def _part_line(name: str, seconds: float) -> str:
    return f"  {name.removesuffix('_seconds').replace('_', ' '):<24}  {1000 * seconds:10.2f} ms"


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m experiments.benchmark", description="Benchmarks of the library on this machine."
    )
    commands = parser.add_subparsers(required=True, metavar="BENCHMARK")
    overhead = commands.add_parser("rl-overhead", help="time that selecting and learning add to an FL round")
    overhead.set_defaults(benchmark=rl_overhead, text=_text)
    overhead.add_argument("--clients", type=int, default=20, metavar="N", help="default: 20")
    overhead.add_argument("--scenario", default="fashion-mnist", metavar="NAME", help="default: fashion-mnist")
    overhead.add_argument(
        "--rounds", type=int, default=MIN_ROUNDS, metavar="N", help=f"default: {MIN_ROUNDS}, the least"
    )
    overhead.add_argument("--seed", type=int, default=7, metavar="N", help="default: 7")
    overhead.add_argument("--data-dir", type=Path, metavar="DIR", help="where the data lies; default: $BIPPO_DATA")
    for module in (fl, null_clients, memory, churn):
        module.add_parser(commands)
    for command in commands.choices.values():
        command.add_argument("--json", type=Path, metavar="FILE", help="also write the record to FILE")
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Run one benchmark; returns the exit code (0, 1 what was measured is too much, 2 bad input)."""
    arguments = _parser().parse_args(argv)
    try:
        if arguments.json:
            check_writable(arguments.json.parent, "--json: folder")
            arguments.json.parent.mkdir(parents=True, exist_ok=True)
        record = arguments.benchmark(arguments)
        if arguments.json:
            arguments.json.write_text(json.dumps(record, indent=2) + "\n")
    except (ValueError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    print(arguments.text(record))
    return 1 if record.get("failures") else 0
