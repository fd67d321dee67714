"""Loggers of a study beside its rows and TensorBoard: MLflow and Weights & Biases."""

from __future__ import annotations

import importlib.util
import logging
import os
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from experiments.cli import one_line

#: Values of ``--logger``, which are names of packages.
LOGGERS = ("mlflow", "wandb")
MLFLOW_FILE = "mlflow.db"
#: Key of a result's list of the rounds that it summarises, each with its numbers by tag.
POINTS = "points"
_PROJECT = "bippo"
_MLFLOW_BATCH = 1_000  # The most metrics that MLflow takes at once.


def check_installed(loggers: Sequence[str]) -> None:
    """Refuses a logger whose package is missing.

    Raises:
        ValueError: With the command that installs it.
    """
    for name in loggers:
        if importlib.util.find_spec(name) is None:
            raise ValueError(f"--logger {name} needs the package {name}, which is not installed: pip install {name}")


def check_reachable(loggers: Sequence[str], results_dir: Path) -> None:
    """Refuses a logger that cannot be written to, such as one without a login.

    Raises:
        ValueError: With the message of the package.
    """
    for name, callback in zip(loggers, new_loggers(loggers, results_dir), strict=True):
        try:
            callback.setup()
        except Exception as error:  # whatever the package raises
            raise ValueError(f"--logger {name}: {one_line(error)}") from error


def new_loggers(loggers: Sequence[str], results_dir: Path) -> list[Any]:
    """Returns Ray Tune's callbacks for the named loggers.

    MLflow writes to ``$MLFLOW_TRACKING_URI``, or else to a database in the results folder; Weights & Biases reads its
    own environment variables, where ``$WANDB_PROJECT`` is ``bippo`` by default.
    """
    make = {"mlflow": _mlflow, "wandb": _wandb}
    return [make[name](results_dir) for name in loggers]


def _mlflow(results_dir: Path) -> Any:
    from ray.air.integrations.mlflow import MLflowLoggerCallback

    class MLflow(MLflowLoggerCallback):
        """Logs the numbers of many rounds in one transaction; Ray's takes one for each number."""

        def log_trial_result(self, iteration: int, trial: Any, result: Mapping[str, Any]) -> None:
            from mlflow.entities import Metric
            from mlflow.tracking import MlflowClient

            client, now = MlflowClient(self.tracking_uri, self.registry_uri), int(1000 * time.time())
            metrics = [
                Metric(tag, value, now, step) for step, numbers in result[POINTS] for tag, value in numbers.items()
            ]
            for start in range(0, len(metrics), _MLFLOW_BATCH):
                client.log_batch(self._trial_runs[trial], metrics[start : start + _MLFLOW_BATCH])

    logging.getLogger("mlflow").setLevel(logging.WARNING)  # else it logs every table of a new database
    uri = os.environ.get("MLFLOW_TRACKING_URI") or f"sqlite:///{results_dir / MLFLOW_FILE}"
    return MLflow(uri, experiment_name=results_dir.name)


def _wandb(results_dir: Path) -> Any:
    from ray.air.integrations.wandb import WandbLoggerCallback

    class Wandb(WandbLoggerCallback):
        """Logs a point for each round."""

        def log_trial_result(self, iteration: int, trial: Any, result: Mapping[str, Any]) -> None:
            for step, numbers in result[POINTS]:
                super().log_trial_result(step, trial, {**numbers, "training_iteration": step})

    # A Ray worker writes the runs, whose environment may differ from this process's, and whose folder Ray copies before
    # a run has ended.
    return Wandb(
        os.environ.get("WANDB_PROJECT") or _PROJECT,
        group=results_dir.name,
        dir=os.environ.get("WANDB_DIR") or str(results_dir),
        mode=os.environ.get("WANDB_MODE"),
        entity=os.environ.get("WANDB_ENTITY"),
    )
