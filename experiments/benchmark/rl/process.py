"""Every contestant in a process of its own: what one leaves behind in memory does not count for another."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import TypeVar

from pydantic import TypeAdapter, ValidationError

from experiments.benchmark.rl.rows import CASE, CHECKPOINT, PAIRS, Case, Checkpoint, Pair

_T = TypeVar("_T")
_SECONDS = TypeAdapter(float)
_ENVIRONMENT = {"OMP_NUM_THREADS": "1", "RAY_ADDRESS": "local", "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0"}


class ContestantProcess:
    """``Contestant`` in a fresh process, which waits while it is not asked.

    Raises:
        RuntimeError: In all calls, if the process has failed, with the last line it wrote or the signal that ended it.
    """

    def __init__(self, case: Case) -> None:
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 (closed with the process)
        self._process = subprocess.Popen(
            [sys.executable, "-m", "experiments.benchmark.rl.measure", CASE.dump_json(case).decode()],
            env={**os.environ, **_ENVIRONMENT},
            cwd=Path(__file__).resolve().parents[3],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
        )
        try:
            self.build_s = self._reply(_SECONDS)
        except BaseException:  # also an interrupt: nobody else knows of the process yet
            self.close()
            raise

    def pairs(self, count: int) -> list[Pair]:
        """See ``Contestant``."""
        assert self._process.stdin is not None, "it was opened with a pipe"
        with suppress(BrokenPipeError):  # if it has died, the reply says of what
            self._process.stdin.write(f"{count}\n".encode())
            self._process.stdin.flush()
        return self._reply(PAIRS)

    def end(self) -> Checkpoint:
        """See ``Contestant``; the process ends."""
        assert self._process.stdin is not None, "it was opened with a pipe"
        with suppress(BrokenPipeError):
            self._process.stdin.close()
        checkpoint = self._reply(CHECKPOINT)
        self._process.wait()
        return checkpoint

    def close(self) -> None:
        """Ends the process if it has not ended."""
        self._process.terminate()
        try:
            self._process.wait(timeout=10)
        except subprocess.TimeoutExpired:
            self._process.kill()
        self._errors.close()

    def _reply(self, kind: TypeAdapter[_T]) -> _T:
        assert self._process.stdout is not None, "it was opened with a pipe"
        line = self._process.stdout.readline()
        if line.endswith(b"\n"):
            try:
                return kind.validate_json(line)
            except ValidationError:
                raise RuntimeError(
                    f"it wrote {line.decode(errors='replace').strip()!r} in the place of figures"
                ) from None
        code = self._process.wait()
        if code < 0:
            raise RuntimeError(f"ended by {signal.Signals(-code).name}, as when memory runs out")
        self._errors.seek(0)
        last = self._errors.read().decode(errors="replace").strip().splitlines()
        raise RuntimeError((last or [f"exit code {code}"])[-1])
