"""Ray's logical GPUs: which actor sees which, without a GPU in the machine."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]

RUN = """
import json, logging, ray
import envs
from envs.training.ray_executor import RayExecutor
from envs.training.executors import new_executor

logging.basicConfig(format="%(message)s")
ray.init("local", num_cpus=4, num_gpus=2, include_dashboard=False, log_to_driver=False, logging_level="ERROR")
found = []
for settings in ({"gpus_per_actor": 0.5}, {}):
    executor = new_executor(envs.FederationConfig(num_clients=4, cpus_per_actor=0.5, **settings))
    found.append([type(executor).__name__, [actor.visible_gpus for actor in executor.actors]])
    found[-1].append(sorted({actor.device for actor in executor.actors}))
    executor.close()
print(json.dumps(found))
"""


@pytest.mark.ray
@pytest.mark.slow
def test_each_actor_sees_the_gpu_ray_assigned_to_it_and_no_other():
    environment = {**os.environ, "CUDA_VISIBLE_DEVICES": "0,1", "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, "-c", RUN], cwd=ROOT, env=environment, capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stderr
    shared, whole = json.loads(done.stdout.splitlines()[-1])
    # `auto` takes to actors: with 0.5 each four share two GPUs, else there is one per GPU.
    assert shared[0] == whole[0] == "RayExecutor"
    assert sorted(shared[1]) == ["0", "0", "1", "1"]
    assert sorted(whole[1]) == ["0", "1"]
    if "cpu" in whole[2]:
        assert done.stderr.count("no CUDA here: FL actors hold GPUs that torch cannot use") == 1
