"""A trial: one result for many rounds, logs of each of them, and the same rows whichever rounds Tune gets to see."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest
from ray.train._internal.storage import StorageContext
from study_runs import assert_same_rows
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from test_study import tiny_study

from envs.settings.execution import Execution
from experiments.results.checkpoints import truncate_to_checkpoint
from experiments.results.rows import read_rows
from experiments.study import trial as trial_module
from experiments.study.failure import TrialFailed
from experiments.study.placement import Placement
from experiments.study.study import Trial
from experiments.study.trial import POINTS, StudyTrial
from experiments.study.trial_config import param_space

ROUNDS = 12


@pytest.fixture(autouse=True)
def working_directory(ray_session: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A trial goes to a folder of its own."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(trial_module, "RESULT_INTERVAL_S", 1e9)


def started(folder: Path, resume_from: str = "", **changes: Any) -> StudyTrial:
    study = replace(tiny_study(folder, methods=("bippo",), seeds=(7,)), rounds=ROUNDS, checkpoint_every=5, **changes)
    start = Trial("bippo", 7, resume_from=resume_from)
    point = {**param_space(study, Placement(1, Execution("serial"))), "trial": asdict(start)}
    return StudyTrial(point, storage=StorageContext(str(folder.parent), folder.name, trial_dir_name=start.name))


def results(trial: StudyTrial) -> Iterator[dict[str, Any]]:
    while trial.training_iteration < ROUNDS:
        yield trial.train()


def steps(folder: Path) -> list[int]:
    logs = EventAccumulator(str(folder / "bippo-seed7")).Reload()
    return [point.step for point in logs.Scalars("accuracy/mean_accuracy")]


def test_results_end_at_checkpoints_rungs_and_the_last_round_and_rows_are_the_same(tmp_path, monkeypatch) -> None:
    search = {"search": {"lr": "uniform(0.1, 1)"}, "num_samples": 2}
    for folder, changes, expected in (("few", {}, [5, 10, 12]), ("rungs", search, [3, 5, 6, 10, 12])):
        trial = started(tmp_path / folder, **changes)
        found = list(results(trial))
        trial.stop()
        assert [result["round"] for result in found] == expected
        assert [number for result in found for number, _ in result[POINTS]] == list(range(1, ROUNDS + 1))
        assert found[-1][POINTS][-1][1]["energy/energy_total_j"] == found[-1]["energy_total_j"]
    monkeypatch.setattr(trial_module, "RESULT_INTERVAL_S", 0.0)
    every = started(tmp_path / "every")
    assert [result["round"] for result in results(every)] == list(range(1, ROUNDS + 1))
    every.stop()
    assert_same_rows(tmp_path / "few", tmp_path / "every")
    assert steps(tmp_path / "few") == steps(tmp_path / "every") == list(range(1, ROUNDS + 1))


def test_rounds_before_one_that_fails_are_reported_and_logged(tmp_path, monkeypatch) -> None:
    trial = started(tmp_path / "failing")
    step = StudyTrial.training_step

    def fails_in_round_4(trial: StudyTrial) -> None:
        step(trial)
        if trial.parallel_env.last_round.round == 4:
            raise OSError("no")

    monkeypatch.setattr(StudyTrial, "training_step", fails_in_round_4)
    assert trial.train()["round"] == 3
    for _ in range(2):
        with pytest.raises(TrialFailed) as error:
            trial.train()
        assert error.value.reason == "OSError: no"
    trial.stop()
    assert read_rows(tmp_path / "failing")["round"].tolist() == steps(tmp_path / "failing") == [1, 2, 3]


def test_a_resumed_trial_has_one_point_for_each_round_even_within_a_second(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr("tensorboardX.event_file_writer.time.time", lambda: 1.8e9)
    folder = tmp_path / "resumed"
    killed = started(folder)
    assert killed.train()["round"] == 5
    killed.save_checkpoint(str(folder / "bippo-seed7" / "checkpoint_000000"))
    assert killed.train()["round"] == 10
    resumed = started(folder, truncate_to_checkpoint(folder / "bippo-seed7", ROUNDS).checkpoint)
    assert [result["round"] for result in results(resumed)] == [10, 12]
    resumed.stop()
    assert steps(folder) == read_rows(folder)["round"].tolist() == list(range(1, ROUNDS + 1))
