"""Every case in a process of its own: what one leaves behind in memory does not count for the next."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from experiments.benchmark.rl.rows import CASE, MEASUREMENT, Case, Measurement

_ENVIRONMENT = {"OMP_NUM_THREADS": "1", "RAY_ADDRESS": "local", "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0"}


def run_case(case: Case) -> Measurement:
    """Measures a case in a fresh process.

    Raises:
        RuntimeError: If it fails, with the last line it wrote.
    """
    done = subprocess.run(
        [sys.executable, "-m", "experiments.benchmark.rl.measure", CASE.dump_json(case).decode()],
        env={**os.environ, **_ENVIRONMENT},
        cwd=Path(__file__).resolve().parents[3],
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        raise RuntimeError((done.stderr.strip().splitlines() or [f"exit code {done.returncode}"])[-1])
    return MEASUREMENT.validate_json(done.stdout.strip().splitlines()[-1])
