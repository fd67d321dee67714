"""One seed fixes a run, whatever the order of Python's sets in the process."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]

RUN = """
import hashlib, sys, ray, torch
import envs
from bippo_rllib import BippoConfig

torch.set_num_threads(1)
ray.init(sys.argv[1], log_to_driver=False, logging_level="ERROR")
keywords = dict(num_clients=8, train_samples=20, test_samples=10, local_epochs=1, budget_share=0.4, rounds=30,
                churn_leave_rate=0.2, churn_return_rate=0.5)
config = BippoConfig().environment(envs.parallel_env, env_config=keywords).debugging(seed=7, log_level="ERROR")
algo = config.build_algo()
rounds = []
for _ in range(20):
    algo.train()
    last = algo.parallel_env.last_round
    rounds.append((last.round, last.trained, last.mean_accuracy, last.reward, last.energy_j, last.accuracies))
weights = algo.bank.flat.numpy().tobytes()
model = algo.parallel_env.get_state()["weights"].numpy().tobytes()
print(hashlib.sha256(repr(rounds).encode() + weights + model).hexdigest(), len({r[1] for r in rounds}))
"""


def start(hash_seed: str, ray_address: str) -> subprocess.Popen:
    environment = {**os.environ, "PYTHONHASHSEED": hash_seed, "OMP_NUM_THREADS": "1"}
    return subprocess.Popen(
        [sys.executable, "-c", RUN, ray_address],
        cwd=ROOT,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


@pytest.mark.slow
def test_the_hash_seed_of_the_process_changes_nothing(ray_address):
    digests = set()
    for process in [start(hash_seed, ray_address) for hash_seed in ("0", "1")]:
        stdout, stderr = process.communicate(timeout=240)
        assert process.returncode == 0, stderr
        digests.add(stdout.strip().splitlines()[-1])
    assert len(digests) == 1
    assert int(digests.pop().split()[1]) > 3  # different selections, so there was something to differ in
