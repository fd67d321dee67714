"""Fixtures shared by all tests: one torch thread, and one Ray for the whole run. Marks what needs Ray."""

from __future__ import annotations

import inspect
import os
import shutil
import sys
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import hypothesis
import pytest

#: Before torch and Ray are imported, and for the processes that tests start. A Ray worker of lower priority than the
#: tests beside it would starve; one that no test may need takes as long to start as one that is needed.
os.environ["OMP_NUM_THREADS"] = "1"
os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
os.environ.setdefault("RAY_worker_niceness", "0")
os.environ.setdefault("RAY_prestart_worker_first_driver", "0")


# On a machine that does other things too, an example may take any time.
hypothesis.settings.register_profile("tests", deadline=None)
hypothesis.settings.load_profile("tests")


def pytest_xdist_auto_num_workers(config: pytest.Config) -> int:
    """Two processes for the whole suite, none for files that were named: they would take longer to start than to run.

    Each process has a Ray of its own, so more of them are slower unless there are many cores.
    """
    whole_suite = config.args_source is pytest.Config.ArgsSource.TESTPATHS
    return 2 if whole_suite and (os.cpu_count() or 1) > 1 else 0


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """``-m "not ray"`` leaves out whatever uses the shared Ray; tests with a Ray of their own carry the mark.

    Of two processes none is to begin with a file of long tests when the other one is done.
    """
    for item in items:
        in_actors = "any_executor" in item.fixturenames and item.callspec.params["any_executor"] == "ray"
        if in_actors or "ray_cluster" in item.fixturenames:
            item.add_marker(pytest.mark.ray)
    if hasattr(config, "workerinput"):
        slow, ray = ({item.path for item in items if item.get_closest_marker(mark)} for mark in ("slow", "ray"))
        items.sort(key=lambda item: (item.path not in slow, item.path not in ray))


def pytest_runtest_setup() -> None:
    """Makes building an algorithm three times as fast, and ending it at once.

    RLlib finds the caller of each connector's constructor with ``inspect.stack()[1].frame``. That looks for the
    source of every frame there is, and below a test there are some forty of pytest's. ``algo.stop()`` waits for a
    thread that looks at the machine's load every 0.7 s, and ends by itself.
    """
    connector = sys.modules.get("ray.rllib.connectors.connector_v2")
    if connector is not None:
        connector.inspect = SimpleNamespace(stack=_stack, getargvalues=inspect.getargvalues)  # type: ignore[attr-defined]
    load = sys.modules.get("ray.tune.utils.util")
    if load is not None:
        load.UtilMonitor.join = lambda thread, timeout=None: None  # type: ignore[attr-defined]


def _stack() -> list[SimpleNamespace]:
    """Its caller and that one's, as far as RLlib looks."""
    return [SimpleNamespace(frame=sys._getframe(depth)) for depth in (1, 2)]


@pytest.fixture(scope="session")
def ray_cluster() -> Iterator[Any]:
    """A Ray with two CPUs, without what nobody looks at; a test may add a node and must remove it.

    ``ray.init`` would start a local Ray twice as slowly: its agent insists on a port which it waits for while
    another Ray of this machine has it.
    """
    from ray.cluster_utils import Cluster

    # Elsewhere it would note its address, and a Ray started on this machine later would be connected to it.
    folder = os.environ["RAY_TMPDIR"] = tempfile.mkdtemp(prefix="ray", dir="/tmp")
    quick = {"include_dashboard": False, "dashboard_port": None, "dashboard_agent_listen_port": 0}
    quick |= {"no_monitor": True, "include_log_monitor": False}
    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 2, **quick})
    yield cluster
    cluster.shutdown()
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="session")
def ray_session(ray_cluster: Any) -> Iterator[None]:
    """This process is connected to the ``ray_cluster``, started for the first test that needs it."""
    import ray

    ray.init(ray_cluster.address, log_to_driver=False, logging_level="ERROR")
    yield
    ray.shutdown()


@pytest.fixture(scope="session")
def ray_address(ray_cluster: Any) -> str:
    """For a process that is to share it: as ``$RAY_ADDRESS``."""
    return ray_cluster.address


@pytest.fixture(autouse=True)
def no_monitor_goes_on() -> Iterator[None]:
    """Ends the threads that look at the machine's load for the algorithms that a test built."""
    yield
    load = sys.modules.get("ray.tune.utils.util")
    for thread in threading.enumerate() if load else ():
        if isinstance(thread, load.UtilMonitor):
            thread.stop()


@pytest.fixture
def tune_here(ray_session: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Studies run their trials in this process."""
    from ray import tune
    from study_runs import TunerHere

    monkeypatch.setattr(tune, "Tuner", TunerHere)


@pytest.fixture
def blank_figures(monkeypatch: pytest.MonkeyPatch) -> None:
    """Files of figures without drawing them."""
    from matplotlib.figure import Figure

    monkeypatch.setattr(Figure, "savefig", lambda self, path, **options: Path(path).touch())


@pytest.fixture(scope="session")
def actor_hosts(ray_session: None) -> list[Any]:
    """Two processes whose actors any number of executors may share."""
    from actor_hosts import start_hosts

    return start_hosts(2)


@pytest.fixture(params=["serial", "ray"])
def any_executor(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Environments that name no executor train serially, or in two Ray actors."""
    if request.param == "ray":
        from actor_hosts import hosted_executor

        from envs import federation

        hosts = request.getfixturevalue("actor_hosts")
        monkeypatch.setattr(federation, "new_executor", lambda config: hosted_executor(hosts, config, num_actors=2))
    return request.param


@pytest.fixture
def in_a_flower_task(monkeypatch: pytest.MonkeyPatch) -> None:
    """Flower makes messages in a process that knows its run only.

    QFedAvg and Bulyan collect garbage for each record of arrays, which below a test takes half a second.
    """
    from flwr.app.message import arrayrecord
    from flwr.supercore.task_identity import TaskIdentity

    monkeypatch.setattr(arrayrecord, "gc", SimpleNamespace(collect=lambda: None))

    for name in ("run_id", "node_id", "task_id"):
        monkeypatch.setattr(TaskIdentity, f"_{name}", 1)
