"""One case in this process: ``python -m experiments.benchmark.rl.measure '{"implementation": "bippo", ...}'``."""

from __future__ import annotations

import gc
import statistics
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

from experiments.benchmark.measuring import resident_mib
from experiments.benchmark.rl.free_rounds import PAIR
from experiments.benchmark.rl.rows import BIPPO, CASE, CENTRAL, MEASUREMENT, PRIOR, STOCK, Case, Measurement
from experiments.benchmark.rl.stock_rllib import build_stock
from experiments.benchmark.rl.stopwatch import PARTS, Stopwatch
from experiments.benchmark.rl.subjects import Subject, build_bippo, build_central, build_prior
from experiments.study.ray_session import quiet, ray_session

BUILDERS = {BIPPO: build_bippo, PRIOR: build_prior, CENTRAL: build_central, STOCK: build_stock}
WARM_UP_PAIRS = {BIPPO: 5, PRIOR: 5, CENTRAL: 5, STOCK: 1}


def measure(case: Case) -> Measurement:
    """Builds the algorithm, runs it and saves it. Ray must be running.

    Raises:
        RuntimeError: If another number of clients took part than the case says.
    """
    start = time.perf_counter()
    subject = BUILDERS[case.implementation](case, Stopwatch())
    build_s = time.perf_counter() - start
    for _ in range(WARM_UP_PAIRS[case.implementation]):
        measure_pair(subject)
    gc.collect()
    pairs = _pairs(subject, case)
    window = max(1, min(100 // PAIR, len(pairs) // 2))
    medians, first, last = _medians(pairs), _medians(pairs[:window]), _medians(pairs[-window:])
    del medians["resident_mib"]
    return Measurement(
        case=case,
        **medians,
        rl_ms_first=first["rl_ms"],
        rl_ms_last=last["rl_ms"],
        resident_mib_first=first["resident_mib"],
        resident_mib_last=last["resident_mib"],
        build_s=build_s,
        **_checkpoint(subject.algo),
    )


def _pairs(subject: Subject, case: Case) -> list[dict[str, float]]:
    """The figures of each measured pair of rounds."""
    env = subject.environment.parallel_env
    before = env.participations
    pairs = [measure_pair(subject) for _ in range(case.rounds // PAIR)]
    taken_part = (env.participations - before) / (len(pairs) * PAIR)
    if case.implementation != STOCK and taken_part != case.num_participants:
        raise RuntimeError(f"{taken_part} clients took part per round; the case says {case.num_participants}")
    return pairs


def measure_pair(subject: Subject) -> dict[str, float]:
    """Two rounds: milliseconds per round, whose parts add up to ``rl_ms``, policies updated per round, and memory."""
    parts, env_s = dict(subject.watch.seconds), subject.environment.seconds
    start = time.perf_counter()
    updated = subject.pair()
    rl = time.perf_counter() - start - (subject.environment.seconds - env_s)
    seconds = {part: subject.watch.seconds[part] - parts[part] for part in PARTS}
    seconds |= {"rl": rl, "bookkeeping": rl - sum(seconds.values())}
    if subject.kernel is not None:
        seconds["kernel_forward"], seconds["kernel_update"] = subject.kernel()
    milliseconds = {f"{name}_ms": 1000 / PAIR * value for name, value in seconds.items()}
    return {**milliseconds, "updates_per_round": updated / PAIR, "resident_mib": resident_mib()}


def _medians(pairs: Sequence[Mapping[str, float]]) -> dict[str, Any]:
    return {name: statistics.median(pair[name] for pair in pairs) for name in pairs[0]}


def _checkpoint(algo: Any) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as folder:
        start = time.perf_counter()
        algo.save_to_path(Path(folder, "checkpoint"))
        seconds = time.perf_counter() - start
        sizes = [path.stat().st_size for path in Path(folder).rglob("*") if path.is_file()]
    return {"checkpoint_s": seconds, "checkpoint_mib": sum(sizes) / 2**20, "checkpoint_files": len(sizes)}


def main() -> None:
    """Measures the case in the first argument and prints its row as the last line."""
    quiet()
    torch.set_num_threads(1)
    with ray_session():
        found = measure(CASE.validate_json(sys.argv[1]))
    print(MEASUREMENT.dump_json(found).decode(), flush=True)


if __name__ == "__main__":
    main()
