"""TensorBoard, MLflow and Weights & Biases: one study that logs to all three, read back; tags, kinds, refusals."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import numpy as np
import pytest

from experiments import tune_bippo
from experiments.results.rows import read_rows
from experiments.study.client_kinds import client_kinds
from experiments.study.logger_tags import GROUPS, tag_of
from experiments.study.loggers import new_loggers

ARGUMENTS = (
    "--methods bippo --seeds 7 --rounds 3 --parallel-trials 1 --logger mlflow --logger wandb --set lr=0.002 "
    "env.num_clients=6 env.local_epochs=1 env.budget_share=0.6 env.noisy_clients=(1,) env.label_noise=0.5"
)


@pytest.fixture(scope="module")
def results(ray_session: None, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("loggers") / "study"
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("MLFLOW_TRACKING_URI", raising=False)
        patch.setenv("WANDB_MODE", "offline")
        patch.setattr(tune_bippo, "_print_report", lambda study: None)
        assert tune_bippo.main([*ARGUMENTS.split(), "--results-dir", str(folder)]) == 0
    return folder


@pytest.mark.slow
def test_tensorboard_has_the_rows_in_groups_and_the_settings(results: Path) -> None:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
    from tensorboard.plugins.hparams import metadata

    rows, logs = read_rows(results), EventAccumulator(str(results / "bippo-seed7")).Reload()
    tags = logs.Tags()["scalars"]
    assert {tag.partition("/")[0] for tag in tags} == {"accuracy", "energy", "selection", "learning", "time", "rllib"}
    for group, keys in GROUPS.items():
        for key in set(keys) & set(rows) - {"measured_j"}:
            points = [(event.step, np.float32(event.value)) for event in logs.Scalars(f"{group}/{key}")]
            assert points == [(row.round, np.float32(getattr(row, key))) for row in rows.itertuples()], key
    shares = [event.value for event in logs.Scalars("energy/budget_share")]
    assert shares == pytest.approx((rows["energy_j"] / rows["budget_j"]).tolist())
    noisy = [event.value for event in logs.Scalars("selection/trained/noisy")]
    assert noisy == [1 in trained for trained in rows["trained"]]
    kinds = [tag for tag in tags if tag.startswith("selection/trained/") and not tag.endswith("noisy")]
    by_round = zip(*([event.value for event in logs.Scalars(tag)] for tag in kinds), strict=True)
    assert len(kinds) >= 4 and [sum(counts) for counts in by_round] == rows["num_trained"].tolist()
    start = logs.SummaryMetadata(metadata.SESSION_START_INFO_TAG).plugin_data.content
    given = metadata.parse_session_start_info_plugin_data(start).hparams
    assert (given["method"].string_value, given["seed"].number_value) == ("bippo", 7)
    assert (given["scenario"].string_value, given["lr"].number_value) == ("digits", 0.002)
    experiment = logs.SummaryMetadata(metadata.EXPERIMENT_TAG).plugin_data.content
    columns = [info.name.tag for info in metadata.parse_experiment_plugin_data(experiment).metric_infos]
    assert "accuracy/mean_accuracy_last_10" in columns and set(columns) <= set(tags)


@pytest.mark.slow
def test_mlflow_has_them_in_a_database_of_the_results_folder(results: Path) -> None:
    from mlflow.tracking import MlflowClient

    client = MlflowClient(f"sqlite:///{results}/mlflow.db")
    (run,) = client.search_runs([client.get_experiment_by_name("study").experiment_id])
    assert (run.info.run_name, run.info.status, run.data.params["trial/method"]) == ("bippo-seed7", "FINISHED", "bippo")
    points = client.get_metric_history(run.info.run_id, "accuracy/mean_accuracy")
    expected = read_rows(results)[["round", "mean_accuracy"]].itertuples(index=False, name=None)
    assert [(point.step, point.value) for point in points] == list(expected)


@pytest.mark.slow
def test_wandb_has_a_run_of_each_trial_to_be_synchronised(results: Path) -> None:
    (run,) = results.glob("wandb/offline-run-*/run-*.wandb")
    written = run.read_bytes()
    assert b"accuracy/mean_accuracy_last_10" in written and b"bippo-seed7" in written


def test_mlflow_goes_where_its_own_variable_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://tracking:5000")
    (logger,) = new_loggers(["mlflow"], tmp_path)
    assert logger.tracking_uri == "http://tracking:5000"


@pytest.mark.parametrize("name", ["mlflow", "wandb"])
def test_a_missing_package_is_one_line_before_anything_starts(name, tmp_path, monkeypatch, capsys) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda asked: None)
    monkeypatch.setattr(tune_bippo, "run_study", lambda study: pytest.fail("started"))
    assert tune_bippo.main(["--logger", name, "--results-dir", str(tmp_path / "r")]) == 2
    assert capsys.readouterr().err.endswith(f"pip install {name}\n")
    assert not (tmp_path / "r").exists()


def test_a_logger_that_nobody_has_logged_in_to_is_one_line(tmp_path, monkeypatch, capsys) -> None:
    for variable in ("WANDB_MODE", "WANDB_API_KEY"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setattr(tune_bippo, "run_study", lambda study: pytest.fail("started"))
    assert tune_bippo.main(["--logger", "wandb", "--results-dir", str(tmp_path / "r")]) == 2
    assert "\nerror: --logger wandb: No WandB API key found" in f"\n{capsys.readouterr().err}"


@pytest.mark.slow
@pytest.mark.parametrize("again", ["--resume", "--config"])
def test_a_study_once_more_may_have_other_loggers(again: str, results: Path) -> None:
    argv = [again, str(results), "--logger", "mlflow"]
    assert tune_bippo.study_of(tune_bippo.parser().parse_args(argv), argv).loggers == ("mlflow",)


def test_an_unknown_logger_names_those_there_are(capsys) -> None:
    assert tune_bippo.main(["--logger", "neptune"]) == 2
    assert "invalid choice: 'neptune'" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("key", "tag"),
    [
        ("epsilon", "selection/epsilon"),
        ("env_runners/selection/epsilon", ""),
        ("env_runners/selection/score_std", "selection/score_std"),
        ("learners/__all_modules__/clip_fraction_mean", "learning/clip_fraction_mean"),
        ("learners/client_003/advantage", "learning/client_003/advantage"),
        ("trained_by_kind/noisy", "selection/trained/noisy"),
        ("config/lr", ""),
        ("timers/training_step", "rllib/timers/training_step"),
    ],
)
def test_every_number_has_a_group(key: str, tag: str) -> None:
    assert tag_of(key) == tag


def test_kinds_are_told_by_what_differs_between_a_few() -> None:
    freqs = [7e8, 7e8, 1.5e9, 1.5e9]
    assert client_kinds([1, 10, 1, 1], freqs, noisy=(2,)) == {
        "1_label_1500_MHz": {2, 3},
        "1_label_700_MHz": {0},
        "10_labels_700_MHz": {1},
        "noisy": {2},
    }
    assert client_kinds([3] * 4, freqs) == {"700_MHz": {0, 1}, "1500_MHz": {2, 3}}
    assert client_kinds([3] * 4, [7e8] * 4) == {}
    assert client_kinds(range(1, 41), [7e8] * 20 + [8e8] * 20).keys() == {"700_MHz", "800_MHz"}
