"""Rounds of another library, in another process, which runs one for every line on its standard input."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

CPU = "cpu"
#: ``--clock`` -> the function of ``time``.
CLOCKS = {"wall": "perf_counter", CPU: "process_time"}
ROOT = Path(__file__).resolve().parents[2]
#: Seconds that a process gets to end after its last round.
ENDS_WITHIN_S = 60.0


class OtherProcess:
    """Runs ``main(file)`` of a module of this package in the interpreter ``python``; it calls ``turns``."""

    def __init__(self, python: str, module: str, file: Path, clock: str = CLOCKS["wall"]) -> None:
        self._python, self._errors = python, tempfile.TemporaryFile("w+")  # noqa: SIM115 (closed with the process)
        path = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
        self._process = subprocess.Popen(
            [python, "-c", f"from experiments.benchmark.{module} import main; main({str(file)!r}, {clock!r})"],
            env={**os.environ, "PYTHONPATH": path, "OMP_NUM_THREADS": "1", "RAY_ADDRESS": "local"},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            text=True,
        )

    def __call__(self) -> float:
        """Runs a round and returns its seconds. ValueError, with the last line it wrote, if the process has ended."""
        assert self._process.stdin and self._process.stdout
        try:
            print(file=self._process.stdin, flush=True)
            return float(self._process.stdout.readline())
        except (BrokenPipeError, ValueError):
            self._errors.seek(0)
            last = self._errors.read().strip().splitlines()[-1:] or [f"exit code {self._process.wait()}"]
            raise ValueError(f"{self._python} did not run a round: {last[0]}") from None

    def close(self) -> None:
        """Ends the process, by force if it has not ended after ``ENDS_WITHIN_S``."""
        try:
            self._process.communicate(timeout=ENDS_WITHIN_S)
        except subprocess.TimeoutExpired:  # its rounds are measured
            self._process.kill()
            self._process.wait()
        finally:
            self._errors.close()


def turns(clock: str) -> Callable[[], bool]:
    """Returns a function to call before the first round and after every one, in the other process.

    It writes the seconds since the request for the round, and waits for the next request; False if there is none.
    """
    replies, now, started = os.fdopen(os.dup(1), "w"), getattr(time, clock), 0.0
    os.dup2(2, 1)  # what libraries print is no reply

    def next_turn() -> bool:
        nonlocal started
        if started:
            print(now() - started, file=replies, flush=True)
        line = sys.stdin.readline()
        started = now()
        return bool(line)

    return next_turn
