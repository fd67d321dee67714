"""Merging results folders: what is refused, and how."""

from __future__ import annotations

import dataclasses
import subprocess
from pathlib import Path

import pandas as pd
import pytest
from row_factory import make_rows, write_trial

from experiments.report.merged import read_results
from experiments.results import provenance
from experiments.results.federation_record import ClientRecord, FederationRecord, ModelRecord
from experiments.results.run_info import RunInfo, write_run_info

INFO = RunInfo("digits", 0.8, 3, {"dataset": "digits", "budget_share": 0.1}, ["bippo"], [7])


def _folder(path: Path, method: str = "bippo", seed: int = 7, **changes: object) -> Path:
    scenario = str(changes.get("scenario", "digits"))
    write_trial(path, make_rows([0.5] * 3, method, seed, scenario=scenario))
    write_run_info(path, dataclasses.replace(INFO, **{"methods": [method], "seeds": [seed], **changes}))  # type: ignore[arg-type]
    return path


def test_methods_and_seeds_add_up(tmp_path: Path) -> None:
    folders = [_folder(tmp_path / "a"), _folder(tmp_path / "b", "ippo"), _folder(tmp_path / "c", seed=28)]
    results = read_results(folders)
    assert results.methods == ["bippo", "ippo"] and len(results.rows) == 9
    assert (results.scenario, results.target, results.rounds) == ("digits", 0.8, 3)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"scenario": "cifar10"}, "scenario is digits in the first and cifar10 in the second"),
        ({"target_accuracy": 0.4}, "target is 0.8 in the first and 0.4 in the second"),
        ({"rounds": 4}, "rounds is 3 in the first and 4 in the second"),
        ({"federation": {"dataset": "digits", "budget_share": 0.2}}, "env.budget_share is 0.1 in the first and 0.2"),
        ({"federation": {"dataset": "digits"}}, "env.budget_share is 0.1 in the first and None in the second"),
        ({"federation": {**INFO.federation, "lr": 1.0}}, "env.lr is None in the first and 1.0 in the second"),
        ({"init_from": "checkpoint"}, "pretrained is False in the first and True in the second"),
        ({"search": {"lr": "uniform(0,1)"}}, "is a search; searches are not merged"),
    ],
)
@pytest.mark.parametrize("is_named", [True, False])
def test_studies_of_another_kind_are_refused(tmp_path: Path, changes: dict, message: str, is_named: bool) -> None:
    folders = [_folder(tmp_path / "around" / "a"), _folder(tmp_path / "around" / "deeper" / "b", "ippo", **changes)]
    with pytest.raises(ValueError, match=message):
        read_results(folders if is_named else [tmp_path / "around"])


def test_a_folder_of_studies_is_as_if_each_were_named(tmp_path: Path) -> None:
    around = tmp_path / "around"
    folders = [
        _folder(around / "a"),
        _folder(around / "b", "ippo", settings={"lr": 0.1}),
        _folder(around / "c", seed=8),
    ]
    named, found = read_results(folders), read_results([around])
    assert [study.folder for study in found.studies] == folders and found.infos == named.infos
    pd.testing.assert_frame_equal(found.rows, named.rows)
    _folder(around / "d", seed=28, settings={"lr": 0.1})
    with pytest.raises(ValueError, match=r"a and .*d cannot be merged.*: both have bippo: lr is not set in the first"):
        read_results([around])


def test_methods_may_be_charged_differently_for_asking_but_not_one_method(tmp_path: Path) -> None:
    charged = {"federation": {**INFO.federation, "probing_epochs": 0.3}}
    _folder(tmp_path / "a")
    _folder(tmp_path / "b", "poc", **charged)
    assert read_results([tmp_path]).methods == ["bippo", "poc"]
    _folder(tmp_path / "c", seed=28, **charged)
    with pytest.raises(ValueError, match=r"both have bippo: env\.probing_epochs is not set in the first and 0\.3"):
        read_results([tmp_path])


def test_what_lies_beside_studies_is_not_pooled_with_them(tmp_path: Path) -> None:
    around = tmp_path / "around"
    _folder(around / "a")
    stray = write_trial(around / "stray", make_rows([0.5] * 3, "ippo"))
    with pytest.raises(ValueError, match=r"around has no readable run\.json"):
        read_results([around])
    stray.unlink()
    (around / "begun").mkdir()
    write_run_info(around / "begun", INFO)
    with pytest.raises(ValueError, match=r"no rows\.parquet under .*begun"):
        read_results([around])


def test_rows_and_record_that_contradict_each_other_are_refused(tmp_path: Path) -> None:
    folder = _folder(tmp_path / "a", scenario="digits")
    write_run_info(folder, dataclasses.replace(INFO, scenario="cifar10"))
    with pytest.raises(ValueError, match=r"holds rows of digits, but its run\.json is of cifar10"):
        read_results([folder])
    alone = FederationRecord(["zero"], 1, ModelRecord("cnn", 1, 1), [ClientRecord(0, {"0": 1}, 1e9, 1.0)])
    write_run_info(folder, dataclasses.replace(INFO, federation_record=alone))
    with pytest.raises(ValueError, match=r"holds rows with client 1, but its run\.json has 1 client"):
        read_results([folder])
    (folder / "run.json").unlink()
    write_trial(folder, make_rows([0.5] * 3, seed=28, scenario="cifar10"))
    with pytest.raises(ValueError, match="holds rows of cifar10 and digits, which do not compare"):
        read_results([folder])


def test_a_record_that_cannot_be_read_is_said_and_the_rows_are_reported(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = _folder(tmp_path / "a")
    (folder / "run.json").write_text("{")
    assert read_results([folder]).methods == ["bippo"]
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(f"warning: {folder}/run.json is no record of a study: Invalid JSON")


def test_where_it_ran_does_not_matter(tmp_path: Path) -> None:
    elsewhere = {**INFO.federation, "data_dir": "elsewhere", "device": "cuda:0", "with_loss": True}
    joined = read_results([_folder(tmp_path / "a"), _folder(tmp_path / "b", "poc", federation=elsewhere)])
    assert sorted(set(joined.rows["method"])) == ["bippo", "poc"]


def test_without_run_json_a_folder_stands_alone(tmp_path: Path) -> None:
    alone = _folder(tmp_path / "a")
    (alone / "run.json").unlink()
    assert read_results([alone]).target == 0.8
    with pytest.raises(ValueError, match=r"has no readable run\.json"):
        read_results([alone, _folder(tmp_path / "b", "ippo")])


def test_a_trial_counts_once_and_a_method_has_the_same_settings(tmp_path: Path) -> None:
    first, other = _folder(tmp_path / "a"), _folder(tmp_path / "b", "ippo", settings={"lr": 0.01})
    with pytest.raises(ValueError, match=r"bippo with seed 7 is in .*a and in .*c"):
        read_results([first, other, _folder(tmp_path / "c")])
    with pytest.raises(ValueError, match=r"both have bippo: lr is not set .* 0\.01"):
        read_results([first, _folder(tmp_path / "d", seed=28, settings={"lr": 0.01, "env.lr": 0.1})])
    read_results([first, other])


def test_a_commit_is_that_of_this_code_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def git(*arguments: str) -> str:
        command = ["git", "-C", str(tmp_path), "-c", "user.name=a", "-c", "user.email=a@b", *arguments]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()

    installed = tmp_path / "site-packages" / "provenance.py"
    installed.parent.mkdir()
    installed.write_text("")
    git("init")
    git("commit", "--allow-empty", "-m", "somebody else's")
    monkeypatch.setattr(provenance, "__file__", str(installed))
    assert provenance.git_commit() is None
    git("add", "site-packages")
    git("commit", "-m", "ours")
    assert provenance.git_commit() == git("rev-parse", "HEAD")
