"""Measures one case in this process: ``python -m experiments.overhead.measure '{"implementation": "bippo", ...}'``."""

from __future__ import annotations

import gc
import json
import logging
import resource
import sys
import tempfile
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bippo_rllib import central_policy_macs, policy_macs
from experiments.overhead.rows import BIPPO, CENTRAL, STOCK, Case, Measurement, to_json
from experiments.overhead.stopwatch import PARTS, Stopwatch
from experiments.overhead.subjects import PAIR, Subject, build_bippo, build_central, build_stock

BUILDERS = {BIPPO: build_bippo, CENTRAL: build_central, STOCK: build_stock}
WARM_UP_PAIRS = {BIPPO: 5, CENTRAL: 5, STOCK: 1}


def measure(case: Case) -> Measurement:
    """Builds the algorithm, runs it and saves it. Ray must be running.

    Raises:
        RuntimeError: If another number of clients took part than the case says.
    """
    start = time.perf_counter()
    subject = BUILDERS[case.implementation](case, Stopwatch())
    build_s = time.perf_counter() - start
    for _ in range(WARM_UP_PAIRS[case.implementation]):
        _pair(subject)
    gc.collect()
    table, updated = _pairs(subject, case)
    return Measurement(
        case=case,
        updates_per_round=updated / PAIR,
        macs_per_client=policy_macs(),
        macs_central=central_policy_macs(case.num_clients),
        **_summary(table),
        build_s=build_s,
        **_checkpoint(subject.algo),
    )


def _pairs(subject: Subject, case: Case) -> tuple[dict[str, NDArray[np.float64]], float]:
    """A column per figure, an entry per pair of rounds, and the mean number of policies updated in a pair."""
    pairs = case.rounds // PAIR
    env = subject.environment.parallel_env
    before = env.participations
    records = [_pair(subject) for _ in range(pairs)]
    taken_part = (env.participations - before) / (pairs * PAIR)
    if case.implementation != STOCK and taken_part != case.num_participants:
        raise RuntimeError(f"{taken_part} clients took part per round; the case says {case.num_participants}")
    columns = {name: np.array([record[name] for record in records]) for name in records[0]}
    return columns, float(columns.pop("updated").mean())


def _pair(subject: Subject) -> dict[str, float]:
    parts, env_s = dict(subject.watch.seconds), subject.environment.seconds
    start = time.perf_counter()
    updated = subject.pair()
    rl = time.perf_counter() - start - (subject.environment.seconds - env_s)
    seconds = {part: subject.watch.seconds[part] - parts[part] for part in PARTS}
    record = {"rl": rl, **seconds, "bookkeeping": rl - sum(seconds.values()), "updated": updated}
    if subject.kernel is not None:
        record["kernel_forward"], record["kernel_update"] = subject.kernel()
    return {**record, "resident_mib": resident_mib()}


def _summary(columns: dict[str, NDArray[np.float64]]) -> dict[str, Any]:
    resident = columns.pop("resident_mib")
    window = max(1, min(100 // PAIR, len(resident) // 2))
    milliseconds = {name: 1000 / PAIR * seconds for name, seconds in columns.items()}
    medians: dict[str, Any] = {f"{name}_ms": float(np.median(values)) for name, values in milliseconds.items()}
    medians.setdefault("kernel_forward_ms", None)
    medians.setdefault("kernel_update_ms", None)
    return {
        **medians,
        "rl_ms_first": float(np.median(milliseconds["rl"][:window])),
        "rl_ms_last": float(np.median(milliseconds["rl"][-window:])),
        "resident_mib_first": float(np.median(resident[:window])),
        "resident_mib_last": float(np.median(resident[-window:])),
    }


def _checkpoint(algo: Any) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as folder:
        start = time.perf_counter()
        algo.save_to_path(Path(folder, "checkpoint"))
        seconds = time.perf_counter() - start
        sizes = [path.stat().st_size for path in Path(folder).rglob("*") if path.is_file()]
    return {"checkpoint_s": seconds, "checkpoint_mib": sum(sizes) / 2**20, "checkpoint_files": len(sizes)}


def resident_mib(pid: int | None = None) -> float:
    """Resident memory of a process, by default this one; of this one the peak where the system tells no more."""
    try:
        pages = int(Path(f"/proc/{pid or 'self'}/statm").read_text().split()[1])
        return pages * resource.getpagesize() / 2**20
    except OSError:
        if pid is not None:
            raise
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return peak / 2**20 if sys.platform == "darwin" else peak / 2**10


@contextmanager
def started_ray() -> Iterator[None]:
    """A quiet Ray and one torch thread."""
    import ray
    import torch

    warnings.filterwarnings("ignore")
    torch.set_num_threads(1)
    ray.init("local", num_cpus=1, include_dashboard=False, log_to_driver=False, logging_level=logging.ERROR)
    logging.getLogger("ray.rllib").setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        ray.shutdown()


def main() -> None:
    """Measure the case in the first argument and print its row as the last line."""
    with started_ray():
        print(to_json(measure(Case(**json.loads(sys.argv[1])))), flush=True)


if __name__ == "__main__":
    main()
