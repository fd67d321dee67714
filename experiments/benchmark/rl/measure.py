"""One case in this process: ``python -m experiments.benchmark.rl.measure '{"implementation": "bippo", ...}'``."""

from __future__ import annotations

import gc
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from experiments.benchmark.measuring import resident_mib
from experiments.benchmark.rl.free_rounds import PAIR
from experiments.benchmark.rl.rows import BIPPO, CASE, CENTRAL, MEASUREMENT, STOCK, Case, Measurement
from experiments.benchmark.rl.stock import build_stock
from experiments.benchmark.rl.stopwatch import PARTS, Stopwatch
from experiments.benchmark.rl.subjects import Subject, build_bippo, build_central
from experiments.study.ray_session import quiet, ray_session

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


def main() -> None:
    """Measures the case in the first argument and prints its row as the last line."""
    quiet()
    torch.set_num_threads(1)
    with ray_session():
        found = measure(CASE.validate_json(sys.argv[1]))
    print(MEASUREMENT.dump_json(found).decode(), flush=True)


if __name__ == "__main__":
    main()
