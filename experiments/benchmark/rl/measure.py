"""One contestant in this process: ``python -m experiments.benchmark.rl.measure '{"implementation": "bippo", ...}'``.

It builds and warms up, writes how long building took, and then for every number it reads a line with the figures of so
many pairs of rounds. When there is no more to read it saves the algorithm and writes what that took.
"""

from __future__ import annotations

import gc
import os
import sys
import tempfile
import time
from pathlib import Path

import torch

from experiments.benchmark.measuring import resident_mib
from experiments.benchmark.rl.free_rounds import PAIR
from experiments.benchmark.rl.rows import BIPPO, CASE, CENTRAL, CHECKPOINT, PAIRS, PRIOR, STOCK, Case, Checkpoint, Pair
from experiments.benchmark.rl.stock_rllib import build_stock
from experiments.benchmark.rl.stopwatch import PARTS, Stopwatch
from experiments.benchmark.rl.subjects import Subject, build_bippo, build_central, build_prior
from experiments.study.ray_session import quiet, ray_session

BUILDERS = {BIPPO: build_bippo, PRIOR: build_prior, CENTRAL: build_central, STOCK: build_stock}
WARM_UP_PAIRS = {BIPPO: 5, PRIOR: 5, CENTRAL: 5, STOCK: 1}


class Contestant:
    """A case in this process, built and warmed up. Ray must be running.

    Attributes:
        build_s: Seconds it took to build, with what is imported on first use.
    """

    def __init__(self, case: Case) -> None:
        start = time.perf_counter()
        self._case, self._subject = case, BUILDERS[case.implementation](case, Stopwatch())
        self.build_s = time.perf_counter() - start
        self.pairs(WARM_UP_PAIRS[case.implementation])
        gc.collect()

    def pairs(self, count: int) -> list[Pair]:
        """The figures of each of the next ``count`` pairs of rounds.

        Raises:
            RuntimeError: If another number of clients took part than the case says.
        """
        env = self._subject.environment.parallel_env
        before = env.participations
        pairs = [measure_pair(self._subject) for _ in range(count)]
        taken_part = (env.participations - before) / (count * PAIR)
        if self._case.implementation != STOCK and taken_part != self._case.num_participants:
            raise RuntimeError(f"{taken_part} clients took part per round; the case says {self._case.num_participants}")
        return pairs

    def end(self) -> Checkpoint:
        """Saves the algorithm, for the last time."""
        with tempfile.TemporaryDirectory() as folder:
            start = time.perf_counter()
            self._subject.algo.save_to_path(Path(folder, "checkpoint"))
            seconds = time.perf_counter() - start
            sizes = [path.stat().st_size for path in Path(folder).rglob("*") if path.is_file()]
        return Checkpoint(checkpoint_s=seconds, checkpoint_mib=sum(sizes) / 2**20, checkpoint_files=len(sizes))

    def close(self) -> None:
        """Nothing is left to be ended."""


def measure_pair(subject: Subject) -> Pair:
    """Runs two rounds, and the bare kernel where there is one."""
    parts, env_s = dict(subject.watch.seconds), subject.environment.seconds
    start = time.perf_counter()
    updated = subject.pair()
    rl = time.perf_counter() - start - (subject.environment.seconds - env_s)
    seconds = {part: subject.watch.seconds[part] - parts[part] for part in PARTS}
    seconds |= {"rl": rl, "bookkeeping": rl - sum(seconds.values())}
    if subject.kernel is not None:
        seconds["kernel_forward"], seconds["kernel_update"] = subject.kernel()
    milliseconds = {f"{name}_ms": 1000 / PAIR * value for name, value in seconds.items()}
    return Pair(**milliseconds, updates_per_round=updated / PAIR, resident_mib=resident_mib())


def main() -> None:
    """Measures the case in the first argument."""
    replies = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # whatever libraries print is no reply
    quiet()
    torch.set_num_threads(1)
    with ray_session():
        contestant = Contestant(CASE.validate_json(sys.argv[1]))
        print(contestant.build_s, file=replies, flush=True)
        for count in sys.stdin:
            print(PAIRS.dump_json(contestant.pairs(int(count))).decode(), file=replies, flush=True)
        print(CHECKPOINT.dump_json(contestant.end()).decode(), file=replies, flush=True)


if __name__ == "__main__":
    main()
