"""Chooses the executor that a configuration asks for."""

from __future__ import annotations

import sys
from typing import Any

from envs.config import FederationConfig
from envs.training.executor import Executor
from envs.training.serial_executor import SerialExecutor


def new_executor(config: FederationConfig) -> Executor:
    """Returns the executor that ``config.executor`` names.

    ``auto`` is Ray actors where Ray runs already and has GPUs to give to them, else serial; it never starts Ray.

    Raises:
        ValueError: If ``ray`` is requested and not installed, or has less than the actors need.
    """
    if config.executor == "serial" or (config.executor == "auto" and not _ray_runs()):
        return SerialExecutor(config)
    try:
        from envs.training.ray_executor import RayExecutor, plan_here
    except ImportError as error:
        raise ValueError(f"executor='ray' needs Ray ({error}); pip install ray, or use executor='serial'") from error
    plan = plan_here(config.execution)
    return SerialExecutor(config) if plan is None else RayExecutor(config, plan)


def _ray_runs() -> bool:
    """Without importing Ray, which takes seconds and may not be installed."""
    ray: Any = sys.modules.get("ray")
    return ray is not None and hasattr(ray, "is_initialized") and ray.is_initialized()
