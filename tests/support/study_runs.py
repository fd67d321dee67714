"""Studies as tests run them: in a process to be killed, in this process without Tune's, copied while they run."""

from __future__ import annotations

import hashlib
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
from ray import tune
from ray.train._internal.storage import StorageContext
from ray.tune.logger import LoggerCallback
from ray.tune.schedulers import FIFOScheduler
from ray.tune.search.variant_generator import generate_variants

from bippo_rllib import Bippo
from experiments.results.checkpoints import newest_checkpoint
from experiments.results.row_schema import TIMING_COLUMNS
from experiments.results.rows import ROWS_FILE, read_rows

ROOT = Path(__file__).resolve().parents[2]


@dataclass(frozen=True)
class TrialHere:
    """What names and schedulers look at."""

    config: dict[str, Any]
    name: str = ""

    def __str__(self) -> str:
        return self.name


class TunerHere:
    """``tune.Tuner`` as far as studies use it: one trial after the other, in this process and, if asked for, one actor.

    A process for each trial takes six seconds to import RLlib. That Tune's own give the same rows is proved wherever a
    study begun here is resumed there.
    """

    def __init__(
        self, trainable: type, *, param_space: dict[str, Any], tune_config: tune.TuneConfig, run_config: tune.RunConfig
    ) -> None:
        self._new_trainable, self._space, self._run = trainable, param_space, run_config
        self._trainable: Any = None
        self._reuse_actors = tune_config.reuse_actors
        self._name_of, self._scheduler = tune_config.trial_dirname_creator, tune_config.scheduler or FIFOScheduler()

    def fit(self) -> list[SimpleNamespace]:
        """Path and error of each trial; what a trial raises is raised."""
        here = os.getcwd()
        try:
            results = [self._run_trial(point) for _, point in generate_variants(self._space)]
            self._stop()
            return results
        finally:
            os.chdir(here)  # a trial goes to a folder of its own

    def _run_trial(self, point: dict[str, Any]) -> SimpleNamespace:
        run, scheduler, trial = self._run, self._scheduler, TrialHere(point, self._name_of(TrialHere(point)))
        storage = StorageContext(run.storage_path, run.name, trial_dir_name=trial.name)
        if not self._reuse_actors:
            self._stop()
        if self._trainable is None:
            self._trainable = self._new_trainable(point, storage=storage)
        else:
            assert self._trainable.reset(point, storage=storage)
        trainable = self._trainable
        scheduler.on_trial_add(None, trial)
        over, every = False, run.checkpoint_config.checkpoint_frequency
        while not over:
            result = trainable.train()
            over = run.stop(trial.name, result) or scheduler.on_trial_result(None, trial, result) == scheduler.STOP
            for callback in (each for each in run.callbacks if not isinstance(each, LoggerCallback)):
                callback.on_trial_result(0, [], trial, result)
            if over or result["training_iteration"] % every == 0:
                trainable.save()
        scheduler.on_trial_complete(None, trial, result)
        return SimpleNamespace(path=storage.trial_fs_path, error=None)

    def _stop(self) -> None:
        if self._trainable is not None:
            self._trainable.stop()
            self._trainable = None


class Snapshot(tune.Callback):
    """Copies the results of a study when a trial has done a round, as a kill of all its processes would leave them."""

    def __init__(self, results_dir: Path, copy: Path, trial: str, round_number: int) -> None:
        self._folders, self._moment = (results_dir, copy), (trial, round_number)

    def on_trial_result(
        self, iteration: int, trials: list[Any], trial: Any, result: dict[str, Any], **info: Any
    ) -> None:
        if (str(trial), result["round"]) == self._moment:
            shutil.copytree(*self._folders)

    def attach(self, monkeypatch: Any) -> None:
        """To the studies that are run from now on, which then report every round."""
        monkeypatch.setattr("experiments.study.trial.RESULT_INTERVAL_S", 0.0)
        original = tune.Tuner.__init__

        def init(tuner: Any, *arguments: Any, run_config: tune.RunConfig, **keywords: Any) -> None:
            run_config.callbacks.append(self)
            original(tuner, *arguments, run_config=run_config, **keywords)

        monkeypatch.setattr(tune.Tuner, "__init__", init)


def run_and_signal(
    arguments: Sequence[str], folder: Path, num_rows: int, number: signal.Signals, **environment: str
) -> tuple[int, str]:
    """Runs a study in a process of its own, signals that once a trial has so many rows; exit code and stderr."""
    command = [sys.executable, "-m", "experiments.tune_bippo", *arguments, "--results-dir", str(folder)]
    pipes: dict[str, Any] = {"stdout": subprocess.DEVNULL, "stderr": subprocess.PIPE, "text": True}
    process = subprocess.Popen(command, cwd=ROOT, env={**os.environ, **environment}, **pipes)
    while rows_so_far(folder) < num_rows and process.poll() is None:
        time.sleep(0.02)
    process.send_signal(number)
    _, stderr = process.communicate()
    return process.returncode, stderr


def rows_so_far(folder: Path) -> int:
    """Of the trial that has the most."""
    return max((pq.read_metadata(file).num_rows for file in folder.glob(f"*/{ROWS_FILE}")), default=0)


def assert_same_rows(folder: Path, other: Path) -> None:
    """But for what a clock measured."""
    rows, expected = (read_rows(each).drop(columns=list(TIMING_COLUMNS)) for each in (folder, other))
    pd.testing.assert_frame_equal(rows, expected, check_exact=True)


def final_state(trial_dir: Path) -> dict[str, Any]:
    """Everything that a run can be resumed with, out of its last checkpoint; tensors as hashes."""
    algo = Bippo.from_checkpoint(str(newest_checkpoint(trial_dir).path))  # type: ignore[union-attr]
    try:
        learner, env = algo.learner, algo.parallel_env
        federation, last_round = env.get_state(), env.last_round
        return {
            "model": _digest(federation["weights"].numpy()),
            "policies": _digest(algo.bank.flat.numpy()),
            **{f"adam {name}": _digest(moments.numpy()) for name, moments in vars(learner.adam.all).items()},
            **{name: _digest(v) for name, v in learner.buffer.get_state(np.arange(len(algo.bank))).items()},
            "sampler": algo.sampler.get_state(),
            "last round": last_round,
        }
    finally:
        algo.stop()


def _digest(array: Any) -> str:
    values = np.ascontiguousarray(array)
    return hashlib.sha256(f"{values.dtype}{values.shape}".encode() + values.tobytes()).hexdigest()
