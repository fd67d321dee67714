"""Ray for one command: quiet, on this machine or on the cluster that ``$RAY_ADDRESS`` names."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager

from envs.training.actor_plan import Resources
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
            ray.init(
                address,
                num_cpus=local_cpus(parallel_trials) if address == "local" else None,
                include_dashboard=False,
                log_to_driver=False,
                logging_level=logging.ERROR,
                runtime_env={"env_vars": {"OMP_NUM_THREADS": "1"}},
            )
    except SystemExit as exit_:  # what Ray makes of a SIGTERM while it starts
        raise KeyboardInterrupt from exit_
    except Exception as error:  # Ray raises bare exceptions, such as when a busy machine lets it time out
        what = "start on this machine" if address == "local" else f"connect to {address}, which ${RAY_ADDRESS} names"
        reason = (str(error).strip() or type(error).__name__).splitlines()[0]
        token = "" if address == "local" else " (if it needs a token: RAY_AUTH_MODE=token and RAY_AUTH_TOKEN)"
        raise ConnectionError(f"Ray did not {what}: {reason}{token}") from error


@contextmanager
def ray_session() -> Iterator[None]:
    """Ray for the body of a ``with``; shut down afterwards only if it did not run before."""
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
    """What each node has: of the Ray that runs or is named by ``$RAY_ADDRESS``, else of this machine."""
    import ray

    if not ray.is_initialized() and _address() != "local":
        start_ray(parallel_trials)
    if ray.is_initialized():
        from envs.training.ray_executor import cluster_nodes

        return cluster_nodes()
    import torch

    return [Resources(local_cpus(parallel_trials), torch.cuda.device_count())]


def local_cpus(parallel_trials: int | None) -> int:
    """Cores of a Ray of this machine: those it may use, or one for each trial side by side that is asked for."""
    from joblib import cpu_count  # knows affinity and the quota of a container

    return max(cpu_count(), parallel_trials or 1)


def _address() -> str:
    return os.environ.get(RAY_ADDRESS) or "local"
