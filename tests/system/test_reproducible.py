"""One seed fixes a run, whatever the order of Python's sets in the process."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from pathlib import Path

import pytest

import envs
from bippo_rllib import BippoConfig

TESTS = Path(__file__).resolve().parent
ROOT = TESTS.parents[1]
FEDERATION = {"num_clients": 8, "train_samples": 20, "test_samples": 10, "local_epochs": 1, "budget_share": 0.4}
CHURN = {"rounds": 30, "churn_leave_rate": 0.2, "churn_return_rate": 0.5}


def digest() -> str:
    """Of twenty rounds, the policies and the model; and how many different selections there were."""
    config = BippoConfig().environment(envs.parallel_env, env_config=FEDERATION | CHURN)
    algo = config.debugging(seed=7, log_level="ERROR").build_algo()
    rounds = []
    for _ in range(20):
        algo.train()
        last = algo.parallel_env.last_round
        rounds.append((last.round, last.trained, last.mean_accuracy, last.reward, last.energy_j, last.accuracies))
    weights = algo.bank.flat.numpy().tobytes()
    model = algo.parallel_env.get_state()["weights"].numpy().tobytes()
    algo.stop()
    found = hashlib.sha256(repr(rounds).encode() + weights + model).hexdigest()
    return f"{found} {len({trained for _, trained, *_ in rounds})}"


@pytest.mark.slow
def test_the_hash_seed_of_the_process_changes_nothing(ray_session: None, ray_address: str) -> None:
    other = "1" if os.environ.get("PYTHONHASHSEED") != "1" else "0"
    done = subprocess.run(
        [sys.executable, "-c", "import test_reproducible; print(test_reproducible.digest())"],
        cwd=TESTS,
        env={**os.environ, "PYTHONHASHSEED": other, "PYTHONPATH": str(ROOT), "RAY_ADDRESS": ray_address},
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    here = digest()
    assert done.stdout.splitlines()[-1] == here
    assert int(here.split()[1]) > 3  # different selections, so there was something to differ in
