"""Ray for one command: quiet, on this machine or on the cluster that ``$RAY_ADDRESS`` names."""

from __future__ import annotations

import logging
import os
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from envs.checks import first_line
from envs.training.actor_plan import Resources
from experiments.shadowed_packages import INSTALLED
from experiments.study.interrupts import ignore_interrupts, signals_restored

#: Environment variable that names a cluster; Ray sets it for a submitted job.
RAY_ADDRESS = "RAY_ADDRESS"


def quiet() -> None:
    """Turns off what Tune and RLlib print by themselves; ``Progress`` and the report say it shorter."""
    os.environ["RAY_AIR_NEW_OUTPUT"] = "0"
    os.environ["TUNE_PRINT_ALL_TRIAL_ERRORS"] = "0"
    os.environ["TUNE_DISABLE_SIGINT_HANDLER"] = "1"
    os.environ["TUNE_DISABLE_AUTO_CALLBACK_LOGGERS"] = "1"  # trials write rows and TensorBoard's file themselves
    import ray.rllib  # noqa: F401  (its import sets its logger's level)

    for name in ("ray.tune", "ray.train", "ray.rllib"):
        logging.getLogger(name).setLevel(logging.CRITICAL)


def start_beside_imports(parallel_trials: int | None, num_trials: int) -> None:
    """Starts a Ray of this machine while torch is imported; its workers then import RLlib while this process goes on.

    Does nothing on a machine with GPUs, where FL actors need cores that only a look at them can tell, nor with a
    cluster. What goes wrong is raised by the next ``start_ray``.

    Args:
        parallel_trials: Trials side by side.
        num_trials: Trials that are to be run, which need no more cores than that.
    """
    logging.getLogger("ray").setLevel(logging.ERROR)  # of a thread it says that it cannot handle SIGTERM
    import ray

    if ray.is_initialized() or _address() != "local" or sys.platform == "win32" or any(Path("/dev").glob("nvidia*")):
        return
    cpus = min(num_trials, local_cpus(parallel_trials))
    started = threading.Event()
    threading.Thread(target=_start_quietly, args=(cpus, started), name="ray start", daemon=True).start()
    with signals_restored():  # Ray takes them for the whole process
        try:
            import torch  # noqa: F401  (it shares no module with Ray, which two threads must not import at once)
        finally:
            started.wait()


def _start_quietly(cpus: int, started: threading.Event) -> None:
    try:
        with suppress(Exception), _found_by_workers():
            _start_local(cpus, _system_config={"preload_python_modules": ["experiments.study.preload"]})
    finally:
        started.set()
    threading.Event().wait()  # Ray's processes are killed when the thread that started them ends


@contextmanager
def _found_by_workers() -> Iterator[None]:
    """Lets processes that are started in the body find the packages of this checkout first, unless it is installed."""
    root, before = Path(__file__).resolve().parents[2], os.environ.get("PYTHONPATH")
    if not INSTALLED & {*root.parts}:
        os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [str(root), before]))
    try:
        yield
    finally:
        os.environ.pop("PYTHONPATH", None)
        if before is not None:
            os.environ["PYTHONPATH"] = before


def start_ray(parallel_trials: int | None = None) -> None:
    """Starts Ray without a dashboard, or connects to the cluster of ``$RAY_ADDRESS``, unless it runs already.

    Args:
        parallel_trials: Trials side by side; a Ray of this machine has at least a core for each.

    Raises:
        ConnectionError: If Ray neither starts nor answers.
    """
    import ray

    if ray.is_initialized():
        return
    address = _address()
    try:
        with signals_restored():
            if address == "local":
                _start_local(local_cpus(parallel_trials))
            else:
                _init(address, runtime_env={"env_vars": {"OMP_NUM_THREADS": "1"}})
    except SystemExit as exit_:  # what Ray makes of a SIGTERM while it starts
        raise KeyboardInterrupt from exit_
    except Exception as error:  # Ray raises bare exceptions, such as when a busy machine lets it time out
        what = "start on this machine" if address == "local" else f"connect to {address}, which ${RAY_ADDRESS} names"
        token = "" if address == "local" else " (if it needs a token: RAY_AUTH_MODE=token and RAY_AUTH_TOKEN)"
        raise ConnectionError(f"Ray did not {what}: {first_line(error)}{token}") from error


def _start_local(cpus: int, **settings: Any) -> None:
    """Starts Ray without a runtime environment, which workers lack that Ray starts before they are needed."""
    os.environ["OMP_NUM_THREADS"] = "1"
    _init("local", num_cpus=cpus, **settings)


def _init(address: str, **settings: Any) -> None:
    import ray

    ray.init(address, include_dashboard=False, log_to_driver=False, logging_level=logging.ERROR, **settings)


@contextmanager
def ray_session() -> Iterator[None]:
    """Starts Ray for the body of a ``with``, and shuts it down afterwards unless it ran before."""
    with ray_ended():
        start_ray()
        yield


@contextmanager
def ray_ended() -> Iterator[None]:
    """Shuts down a Ray that the body has started. No signal cuts that short until Ray lets go of them near its end."""
    import ray

    ran_before = ray.is_initialized()
    try:
        yield
    finally:
        if ray.is_initialized() and not ran_before:
            with signals_restored():
                ignore_interrupts()
                ray.shutdown()


def available_nodes(parallel_trials: int | None) -> list[Resources]:
    """Returns what each node has: of the Ray that runs or is named by ``$RAY_ADDRESS``, else of this machine."""
    import ray

    if not ray.is_initialized() and _address() != "local":
        start_ray(parallel_trials)
    if ray.is_initialized():
        from envs.training.ray_executor import cluster_nodes

        return cluster_nodes()
    import torch

    return [Resources(local_cpus(parallel_trials), torch.cuda.device_count())]


def local_cpus(parallel_trials: int | None) -> int:
    """Returns the cores of a Ray of this machine: those it may use, or as many as trials are asked for side by side."""
    from joblib import cpu_count  # knows affinity and the quota of a container

    return max(cpu_count(), parallel_trials or 1)


def _address() -> str:
    return os.environ.get(RAY_ADDRESS) or "local"
