"""A study over two nodes, submitted as a job to the head node: real Ray processes on this machine."""

from __future__ import annotations

import json
import os
import re
import secrets
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
import zipfile
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import yaml
from free_port import free_port
from source_tree import modules
from test_imports import FLOORS

import envs
from experiments.results.rows import read_rows
from experiments.scenarios import DIGITS

ROOT = Path(__file__).resolve().parents[2]
RAY = [sys.executable, "-c", "from ray.scripts.scripts import main; main()"]
TOKEN = secrets.token_hex(16)
RAY_SETTINGS = {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": TOKEN}
TINY = {"num_clients": 4, "train_samples": 20, "test_samples": 10, "local_epochs": 1, "budget_share": 0.6}


@pytest.fixture
def ray_folder() -> Iterator[Path]:
    """Where Ray puts its sockets, so with a short path. In the usual place it would note the cluster's address, and
    any Ray started on this machine later would be connected to it."""
    folder = Path(tempfile.mkdtemp(prefix="ray", dir="/tmp"))
    yield folder
    shutil.rmtree(folder, ignore_errors=True)


def environment(ray_folder: Path) -> dict[str, str]:
    """Without a cluster that the caller names, and with this Python first."""
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])
    kept = {name: value for name, value in os.environ.items() if name not in ("RAY_ADDRESS", "PYTHONPATH")}
    return {**kept, "PATH": path, "OMP_NUM_THREADS": "1", **RAY_SETTINGS, "RAY_TMPDIR": str(ray_folder)}


def replayed(folder: Path) -> list[tuple[float, ...]]:
    """Accuracies of a serial federation in this process in which the clients of the rows in `folder` train."""
    env = envs.parallel_env(**{**DIGITS.federation, **TINY}, rounds=2, executor="serial")
    env.reset(seed=7)
    found = []
    for selected in read_rows(folder)["trained"]:
        env.step({f"client_{client:03d}": 1 for client in selected})
        found.append(env.last_round.accuracies)
    return found


@pytest.fixture
def head_node(ray_folder: Path) -> Iterator[str]:
    """Address of the dashboard of a head node with one core, beside another such node; started as by administrators."""
    pytest.importorskip("aiohttp_cors", reason='jobs need the dashboard: pip install -e ".[cluster]"')
    gcs, dashboard, client = (free_port() for _ in range(3))
    address = f"http://127.0.0.1:{dashboard}"
    head = ["--head", f"--port={gcs}", f"--ray-client-server-port={client}", "--disable-usage-stats"]
    head += ["--dashboard-host=127.0.0.1", f"--dashboard-port={dashboard}"]
    node = [f"--address=127.0.0.1:{gcs}", f"--temp-dir={ray_folder / 'node'}"]  # as on a machine of its own
    nodes: list[subprocess.Popen] = []
    try:
        for arguments, log in ((head, ray_folder / "head.log"), (node, ray_folder / "node.log")):
            nodes.append(start(arguments, log))
            wait_for(lambda log=log: "Ray runtime started" in log.read_text(), nodes[-1], log)
        wait_for(lambda: accepts_jobs(address), nodes[0], ray_folder / "head.log")
        yield address
    finally:
        for process in nodes:
            process.send_signal(signal.SIGTERM)  # `ray start --block` ends what it started
        try:
            for process in nodes:
                process.wait(timeout=60)
        finally:
            for process in nodes:
                if process.poll() is None:
                    os.killpg(process.pid, signal.SIGKILL)


def start(arguments: list[str], log: Path) -> subprocess.Popen:
    """A node with one core."""
    command = [*RAY, "start", "--block", "--num-cpus=1", "--dashboard-agent-listen-port=0", *arguments]
    with log.open("w") as file:
        return subprocess.Popen(command, env=environment(log.parent), stdout=file, stderr=file, start_new_session=True)


def wait_for(reached: Callable[[], bool], node: subprocess.Popen, log: Path) -> None:
    """Until it is, while the node lives."""
    for _ in range(600):
        assert node.poll() is None, log.read_text()
        if reached():
            return
        time.sleep(0.2)
    pytest.fail(f"not after two minutes: {log.read_text()}")


def accepts_jobs(address: str) -> bool:
    """Whether the dashboard at ``address`` answers."""
    with suppress(urllib.error.URLError, TimeoutError, ConnectionError):
        asked(address, "jobs/")
        return True
    return False


def asked(address: str, path: str) -> Any:
    """What the dashboard's API replies."""
    request = urllib.request.Request(f"{address}/api/{path}", headers={"Authorization": f"Bearer {TOKEN}"})
    with urllib.request.urlopen(request, timeout=5) as reply:
        return json.load(reply)


@pytest.mark.ray
@pytest.mark.slow
def test_a_submitted_job_runs_a_study_over_two_nodes_with_an_actor_on_each(
    head_node: str, ray_folder: Path, tmp_path: Path
) -> None:
    """What needs a third core is refused."""
    settings = [f"env.{name}={value}" for name, value in TINY.items()]
    study = ["python", "-m", "experiments.tune_bippo", "--methods", "bippo", "--seeds", "7", "--rounds", "2"]
    study += ["--executor", "ray", "--results-dir", str(tmp_path / "results"), "--set", *settings]
    three, two = (shlex.join([*study, "--num-actors", number]) for number in "32")
    done = subprocess.run(
        [*RAY, "job", "submit", "--address", head_node, "--working-dir", ".", "--", "sh", "-c", f"{three} || {two}"],
        cwd=ROOT,
        env=environment(ray_folder),
        capture_output=True,
        text=True,
        timeout=400,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "need 3 CPUs and 0 GPUs" in done.stdout and "has 2 CPUs and 0 GPUs on 2 nodes" in done.stdout
    assert "succeeded" in done.stdout and "bippo: 1 method x 1 seed = 1 trial of 2 rounds" in done.stdout
    assert list(map(tuple, read_rows(tmp_path / "results")["accuracies"])) == replayed(tmp_path / "results")
    found = asked(head_node, "v0/actors")["data"]["result"]["result"]
    nodes = [actor["node_id"] for actor in found if actor["class_name"] == "ClientActor"]
    assert len(nodes) == len(set(nodes)) == 2


def sent(folder: Path, package: Path) -> set[str]:
    """The files of a folder that `ray job submit --working-dir` sends, by Ray's own packing."""
    from ray._private.ray_constants import get_runtime_env_default_excludes
    from ray._private.runtime_env.packaging import create_package

    create_package(str(folder), package, include_gitignore=True, excludes=get_runtime_env_default_excludes())
    return {name for name in zipfile.ZipFile(package).namelist() if not name.endswith("/")}


def test_a_job_takes_the_code_along_and_leaves_data_and_results(tmp_path: Path) -> None:
    project = tmp_path / "project"
    own = ("mymethod.py", "mypackage/model.py", "trace.csv")
    code = {str(path.relative_to(ROOT)) for package in FLOORS for path in modules(package).values()}
    heavy = ("data/FashionMNIST/raw/train-images-idx3-ubyte", "data/cifar-10-batches-py/data_batch_1", "data.zip")
    heavy += ("mine/train-images-idx3-ubyte.gz", "mine/train/cat/0.png", "results/run.json", "results-old/asha.jsonl")
    heavy += ("run1/bippo-seed7/rows.parquet", "run1/bippo-seed7/checkpoint_000001/algorithm_state.pkl")
    heavy += ("run1/bippo-seed7/events.out.tfevents.1", ".git/objects/a", ".venv/bin/python", "build/lib/envs/rng.py")
    for name in (*own, *heavy, *code):
        (project / name).parent.mkdir(parents=True, exist_ok=True)
        (project / name).write_text("x")
    for name in (".gitignore", ".rayignore"):
        shutil.copy(ROOT / name, project / name)
    assert sent(project, tmp_path / "project.zip") == {*own, *code, ".gitignore", ".rayignore"}
    files = sent(ROOT, tmp_path / "root.zip")
    assert code <= files and (tmp_path / "root.zip").stat().st_size < 2**21


def test_the_cluster_file_is_one_that_ray_takes() -> None:
    from ray.autoscaler._private.util import prepare_config, validate_config

    cluster = yaml.safe_load((ROOT / "docs" / "cluster.yaml").read_text())
    validate_config(prepare_config(cluster))
    page = (ROOT / "docs" / "cluster.md").read_text()
    assert "cluster.yaml" in page and re.search(r"ray job submit .*--working-dir \. -- python -m experiments", page)
    nodes = cluster["available_node_types"]
    assert cluster["head_node_type"] in nodes and all(node["min_workers"] >= 0 for node in nodes.values())
