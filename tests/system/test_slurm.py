"""The Slurm script of the docs: on one node it runs a study; and what it asks Slurm and Ray for."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from source_tree import ROOT

from experiments.results.rows import read_rows

SCRIPT = ROOT / "docs" / "examples" / "slurm_study.sh"
NOTE = 'echo "$(basename "$0") $*" >> "$CALLS"'
STUDY = f'exec "{sys.executable}" -m experiments "$@"'
RUNS_UNTIL_ENDED = """echo started >> "$CALLS"
trap 'echo ended >> "$CALLS"; exit 130' TERM
while true; do sleep 0.1; done"""


class Job:
    """A job of the script, with commands of our own in place of Slurm's."""

    def __init__(self, folder: Path, nodes: int = 1, bippo: str = NOTE) -> None:
        self.calls = folder / "calls"
        self.calls.write_text("")
        bin_ = folder / "bin"
        bin_.mkdir()
        for name, body in {"bippo": bippo, "srun": NOTE, "scontrol": NOTE}.items():
            (bin_ / name).write_text(f"#!/bin/bash\n{body}\n")
            (bin_ / name).chmod(0o755)
        kept = {name: value for name, value in os.environ.items() if name != "RAY_ADDRESS"}
        slurm = {"SLURM_JOB_ID": f"test{os.getpid()}", "SLURM_JOB_NUM_NODES": f"{nodes}", "SLURM_CPUS_PER_TASK": "4"}
        paths = {"PATH": f"{bin_}:{os.environ['PATH']}", "PYTHONPATH": str(ROOT), "CALLS": str(self.calls)}
        self.environment = {**kept, **slurm, **paths}

    def start(self, *arguments: str) -> subprocess.Popen[str]:
        output = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
        return subprocess.Popen(["bash", SCRIPT, *arguments], env=self.environment, **output)

    def run(self, *arguments: str) -> str:
        process = self.start(*arguments)
        output, _ = process.communicate(timeout=400)
        assert process.returncode == 0, output
        return output


@pytest.mark.parametrize("script", [SCRIPT, ROOT / ".ci" / "run"], ids=lambda script: script.name)
def test_shell_scripts_are_sound(script: Path):
    if not shutil.which("shellcheck"):
        pytest.skip('needs shellcheck: pip install -e ".[test]"')
    checked = subprocess.run(["shellcheck", script], capture_output=True, text=True, check=False)
    assert checked.returncode == 0, checked.stdout


def test_a_job_on_two_nodes_starts_ray_on_both_and_the_study_on_one(tmp_path):
    job, results = Job(tmp_path, nodes=2), tmp_path / "results"
    job.run(str(results), "--methods", "bippo")
    ray, study = job.calls.read_text().strip().split(" -- ")
    address = ray.split()[ray.split().index("--address") + 1]
    cluster = f"--address {address} --min-nodes 2 --num-cpus 4"
    assert ray == f"srun --cpus-per-task 4 ray symmetric-run {cluster}" and address.endswith(":6379")
    assert study == f"env RAY_ADDRESS={address} bippo tune --results-dir {results} --methods bippo"


def test_a_job_whose_time_is_nearly_up_ends_the_study_and_is_queued_again(tmp_path):
    job = Job(tmp_path, bippo=RUNS_UNTIL_ENDED)
    process = job.start(str(tmp_path / "results"))
    deadline = time.monotonic() + 60
    while "started" not in job.calls.read_text():
        assert process.poll() is None and time.monotonic() < deadline
        time.sleep(0.05)
    process.send_signal(signal.SIGUSR1)
    assert process.wait(timeout=60) != 0
    requeued = f"scontrol requeue {job.environment['SLURM_JOB_ID']}"
    assert job.calls.read_text().splitlines() == ["started", "ended", requeued]


def test_a_job_that_is_queued_again_goes_on_with_its_study(tmp_path):
    job, results = Job(tmp_path), tmp_path / "results"
    for _ in range(2):
        job.run(str(results), "--methods", "bippo")
        results.mkdir(exist_ok=True)
        (results / "run.json").touch()
    new, resumed = job.calls.read_text().splitlines()
    assert new == f"bippo tune --results-dir {results} --methods bippo"
    assert resumed == f"bippo tune --resume {results}"


@pytest.mark.ray
@pytest.mark.slow
def test_a_job_on_one_node_runs_a_study(tmp_path):
    job, results = Job(tmp_path, bippo=STUDY), tmp_path / "results"
    settings = ["env.num_clients=4", "env.train_samples=20", "env.test_samples=10", "env.budget_share=0.6"]
    job.run(str(results), "--methods", "bippo", "--seeds", "7", "--rounds", "2", "--set", *settings)
    rows = read_rows(results)
    assert list(rows["round"]) == [1, 2] and (rows["energy_j"] <= rows["budget_j"]).all()
    assert not Path(f"/tmp/ray-{job.environment['SLURM_JOB_ID']}").exists()
