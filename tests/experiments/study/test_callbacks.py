"""Custom callbacks in a study: what they see, how they end a trial, and what is recorded and refused."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from custom_parts import modules_in

from experiments import tune_bippo
from experiments.custom_methods import find_callbacks
from experiments.report.summary import build_report
from experiments.results.rows import read_rows

ENDING = """
from ray.rllib.callbacks.callbacks import RLlibCallback


class Second(RLlibCallback):
    def on_train_result(self, *, algorithm, result, **kwargs):
        assert 0 <= result["mean_accuracy"] <= 1 and result["energy_j"] > 0
        result["done"] = result["round"] == 2 and algorithm.config.sampler == "random"


def function():
    pass
"""


@pytest.fixture(autouse=True)
def modules(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    with modules_in(tmp_path, monkeypatch, ending=ENDING):
        yield


def test_a_callback_ends_trials_which_are_then_finished(
    tune_here: None, capsys: pytest.CaptureFixture[str], blank_figures: None
) -> None:
    study = ["--methods", "fedavg", "bippo", "--seeds", "7", "--rounds", "4", "--results-dir", "r"]
    small = ["--set", "env.num_clients=4", "env.train_samples=20", "env.test_samples=10", "env.budget_share=0.5"]
    assert tune_bippo.main([*study, *small, "--callbacks", "ending:Second"]) == 0
    assert read_rows("r").groupby("method")["round"].max().to_dict() == {"fedavg": 2, "bippo": 4}
    (line,) = build_report(Path("r")).shortfalls
    assert "2 of 4 rounds" in line and "callback" in line
    record = json.loads(Path("r/run.json").read_text())
    assert record["callbacks"] == ["ending:Second"] and "ending" in record["custom_modules"]
    capsys.readouterr()
    assert tune_bippo.main(["--resume", "r"]) == 2
    assert "--callbacks ending:Second" in capsys.readouterr().err
    before = Path("r/fedavg-seed7/rows.parquet").read_bytes()
    assert tune_bippo.main(["--resume", "r", "--trust-code"]) == 0
    assert Path("r/fedavg-seed7/rows.parquet").read_bytes() == before


def test_the_pages_callback_ends_a_trial_that_is_good_enough() -> None:
    callback = find_callbacks("stop:GoodEnough")()
    for rounds, accuracy, done in ((9, 0.95, False), (10, 0.89, False), (10, 0.9, True)):
        result = {"round": rounds, "mean_accuracy_last_10": accuracy}
        callback.on_train_result(algorithm=None, result=result)
        assert result["done"] is done


@pytest.mark.parametrize(
    ("named", "message"),
    [
        ("ending", "must be MODULE:NAME"),
        ("nowhere:Second", "cannot import nowhere"),
        ("ending:Secnd", "did you mean Second?"),
        ("ending:function", "not a function"),
        ("mine:LeastTrained", "not the class LeastTrained"),
        ("ending:Second,ending:Second", "twice"),
    ],
)
def test_what_is_no_callback_is_one_line(named: str, message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert tune_bippo.main(["--callbacks", named]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("error: --callbacks ") and message in line
