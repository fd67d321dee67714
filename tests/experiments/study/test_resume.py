"""Resume: incomplete checkpoints are skipped, rows are cut, a search goes on with the decisions it had made."""

from __future__ import annotations

import hashlib
import json
import os
import re
import signal
from pathlib import Path

import pandas as pd
import pyarrow.parquet as pq
import pytest
from ray import tune
from row_factory import make_rows, write_trial
from study_runs import Snapshot, TunerHere, assert_same_rows, final_state, rows_so_far, run_and_signal

from experiments import tune_bippo
from experiments.results.checkpoints import (
    RESUMED,
    Start,
    checkpoint_at,
    finished,
    newest_checkpoint,
    truncate_to_checkpoint,
    write_manifest,
)
from experiments.results.files import study_lock
from experiments.results.provenance import git_commit
from experiments.results.row_schema import TIMING_COLUMNS
from experiments.results.rows import ROWS_FILE, read_rows
from experiments.results.run_info import RunInfo, read_run_info, write_run_info
from experiments.scenarios import SCENARIOS
from experiments.study.asha_journal import JOURNAL_FILE, Decision, append_decision, read_decisions, stopped_trials
from experiments.study.progress import Progress
from experiments.study.recorded_methods import method_settings
from experiments.study.resume import ready, study_to_resume


def make_checkpoint(trial_dir: Path, name: str, round_number: int) -> Path:
    folder = trial_dir / name
    (folder / "learner").mkdir(parents=True)
    (folder / "learner" / "state.pkl").write_bytes(b"weights" * 100)
    (folder / "algorithm_state.pkl").write_bytes(b"state")
    write_manifest(folder, round_number)
    return folder


def make_trial(folder: Path, num_rows: int) -> Path:
    write_trial(folder, make_rows([0.5] * num_rows))
    return next(folder.rglob(ROWS_FILE)).parent


def rounds_in(trial_dir: Path) -> list[int]:
    return pq.read_table(trial_dir / ROWS_FILE, partitioning=None)["round"].to_pylist()


#: What a manifest may say that would cost memory, leave the folder, or never end.
ODD_MANIFESTS = {
    "round of a text": '{"round": "x", "over": false, "files": {}}',
    "round below 0": '{"round": -1, "over": false, "files": {}}',
    "infinite round": '{"round": 1e999, "over": false, "files": {}}',
    "files of a list": '{"round": 10, "over": false, "files": []}',
    "outside": f'{{"round": 10, "over": false, "files": {{"../outside": "{hashlib.sha256(b"").hexdigest()}"}}}}',
    "a pipe": '{"round": 10, "over": false, "files": {"pipe": ""}}',
    "a device": '{"round": 10, "over": false, "files": {"/dev/zero": ""}}',
    "nested": "[" * 100_000,
    "no text": "\udcff",
}


@pytest.mark.parametrize("damage", ["missing", "truncated", "no manifest", "half a manifest", *ODD_MANIFESTS])
def test_an_incomplete_checkpoint_is_skipped(tmp_path: Path, damage: str) -> None:
    trial = make_trial(tmp_path, 12)
    make_checkpoint(trial, "checkpoint_000000", 5)
    newer = make_checkpoint(trial, "checkpoint_000001", 10)
    assert newest_checkpoint(trial).round == 10
    if damage == "missing":
        (newer / "learner" / "state.pkl").unlink()
    elif damage == "truncated":
        (newer / "learner" / "state.pkl").write_bytes(b"weig")
    elif damage == "no manifest":
        (newer / "manifest.json").unlink()
    elif damage in ODD_MANIFESTS:
        (trial / "outside").touch()
        os.mkfifo(newer / "pipe")
        (newer / "manifest.json").write_bytes(ODD_MANIFESTS[damage].encode(errors="surrogateescape"))
    else:
        (newer / "manifest.json").write_text((newer / "manifest.json").read_text()[:40])
    assert checkpoint_at(newer) is None
    assert newest_checkpoint(trial).round == 5
    assert truncate_to_checkpoint(trial, 50) == Start(str(trial / RESUMED))
    assert checkpoint_at(trial / RESUMED).round == 5
    assert sorted(path.name for path in trial.iterdir() if path.name != "outside") == [RESUMED, ROWS_FILE]
    assert rounds_in(trial) == [1, 2, 3, 4, 5]


def test_without_a_checkpoint_the_trial_starts_over(tmp_path: Path) -> None:
    trial = make_trial(tmp_path, 3)
    (trial / "checkpoint_000000").mkdir()
    (trial / "my_checkpoint_notes.txt").write_text("a user's own")
    assert truncate_to_checkpoint(trial, 50) == Start("")
    assert [path.name for path in trial.iterdir()] == ["my_checkpoint_notes.txt"]


@pytest.mark.parametrize(("num_rows", "cut"), [(3, False), (6, True)])
def test_a_trial_that_lacks_rows_of_its_checkpoint_starts_over_with_a_note(tmp_path: Path, num_rows: int, cut: bool):
    write_run_info(tmp_path, info(methods=["bippo"]))
    trial = make_trial(tmp_path, num_rows)
    make_checkpoint(trial, "checkpoint_000000", 4)
    if cut:
        (trial / ROWS_FILE).write_bytes((trial / ROWS_FILE).read_bytes()[:200])
    study = ready(study_to_resume(tmp_path))
    (note,) = study.notes
    assert note.startswith("bippo-seed7 starts over") and "rounds 1 to 4" in note
    assert [start.resume_from for start in study.trials] == [""]


def test_a_round_that_nobody_can_have_run_takes_no_memory(tmp_path: Path) -> None:
    trial = make_trial(tmp_path, 3)
    make_checkpoint(trial, "checkpoint_000000", 10**15)
    assert not finished(trial, 10**15) and truncate_to_checkpoint(trial, 10**16).checkpoint == ""


def test_lines_of_the_journal_that_are_no_decisions_are_left_out(tmp_path: Path) -> None:
    good = Decision("bippo-seed7-00000", "bippo", 7, 3, 0.5, stop=True)
    append_decision(tmp_path / JOURNAL_FILE, good)
    as_json = json.dumps(vars(good))
    odd = [as_json.replace(": 3,", f": {value},") for value in ('"x"', "0", "-1", "1e999", "null", "[3]")]
    odd += [as_json[:-9], "[" * 100_000, "1", as_json.replace("trial", "trail")]
    with (tmp_path / JOURNAL_FILE).open("ab") as journal:
        journal.write("\n".join(["", *odd]).encode() + b"\n\xff\xfe")
    assert read_decisions(tmp_path / JOURNAL_FILE) == [good]
    assert stopped_trials(tmp_path) == {"bippo-seed7-00000": 3}


def test_a_trials_folder_that_lies_elsewhere_is_not_cleared(tmp_path: Path) -> None:
    study, elsewhere = tmp_path / "study", tmp_path / "elsewhere"
    kept = make_checkpoint(elsewhere, "checkpoint_000000", 5)
    study.mkdir()
    write_run_info(study, info())
    (study / "fedavg-seed7").symlink_to(elsewhere)
    with pytest.raises(ValueError, match=f"fedavg-seed7 is a link to {elsewhere}; put the trial's folder itself there"):
        study_to_resume(study)
    assert kept.is_dir()
    (tmp_path / "link").symlink_to(study)  # the whole study may lie elsewhere
    (study / "fedavg-seed7").unlink()
    assert len(study_to_resume(tmp_path / "link").trials) == 2


def test_a_resumed_trial_that_is_killed_again_goes_on_from_the_same_checkpoint(tmp_path: Path) -> None:
    trial = make_trial(tmp_path, 7)
    make_checkpoint(trial, "checkpoint_000000", 5)
    first = truncate_to_checkpoint(trial, 50).checkpoint
    (trial / "checkpoint_000000").mkdir()  # the next one, hardly begun
    assert truncate_to_checkpoint(trial, 50) == Start(first)
    assert checkpoint_at(Path(first)).round == 5


def test_only_a_trial_with_all_rows_and_its_last_checkpoint_is_finished(tmp_path: Path) -> None:
    trial = make_trial(tmp_path, 6)
    make_checkpoint(trial, "checkpoint_000000", 5)
    assert not finished(trial, 6)
    make_checkpoint(trial, "checkpoint_000001", 6)
    assert finished(trial, 6)
    assert not finished(trial, 7)
    assert not finished(tmp_path / "never-started", 6)


def info(**changes: object) -> RunInfo:
    digits = SCENARIOS["digits"]
    values = {
        "scenario": "digits",
        "target_accuracy": 0.8,
        "rounds": 6,
        "federation": dict(digits.federation),
        "methods": ["bippo", "fedavg"],
        "seeds": [7],
    }
    return RunInfo(**{**values, **changes})


def test_what_is_left_is_resumed_and_changes_are_named(tmp_path: Path) -> None:
    write_run_info(tmp_path, info())
    done = tmp_path / "bippo-seed7"
    write_trial(tmp_path, make_rows([0.5] * 6))
    next(path.parent for path in tmp_path.rglob(ROWS_FILE)).rename(done)
    make_checkpoint(done, "checkpoint_000003", 6)
    study = study_to_resume(tmp_path)
    assert [start.name for start in study.trials] == ["fedavg-seed7"]
    record = json.loads((tmp_path / "run.json").read_text())
    record["packages"]["numpy"] = "1.0"
    record["federation"]["budget_share"] = 0.5
    (tmp_path / "run.json").write_text(json.dumps(record))
    with pytest.raises(ValueError, match=r"scenario budget_share was 0.5, is 0.107; package numpy was 1.0.*--force"):
        study_to_resume(tmp_path)
    assert len(study_to_resume(tmp_path, force=True).trials) == 1


def test_a_churn_trace_that_has_changed_is_named(tmp_path: Path) -> None:
    fixed, chosen = tmp_path / "fixed.csv", tmp_path / "chosen.csv"
    for trace in (fixed, chosen):
        trace.write_text("client,join_round,leave_round\n0,0,3\n")
    path = {"churn_trace": str(fixed)}
    draws = [{"env.churn_trace": repr(str(chosen)), "lr": "0.1"}, {"env.churn_trace": "None", "lr": "0.1"}]
    searched = {"search": {"env.churn_trace": "choice([])", "lr": "choice([0.1])"}, "draws": draws}
    federation = {**SCENARIOS["digits"].federation, **path}
    write_run_info(tmp_path, info(federation=federation, settings={"env.churn_trace": str(fixed)}, **searched))
    assert len(study_to_resume(tmp_path).trials) == 4
    recorded = json.loads((tmp_path / "run.json").read_text())["churn_traces"]
    assert recorded == {str(trace): hashlib.sha256(trace.read_bytes()).hexdigest() for trace in (fixed, chosen)}
    fixed.write_text("client,join_round,leave_round\n0,0,4\n")
    chosen.unlink()
    now = hashlib.sha256(fixed.read_bytes()).hexdigest()
    with pytest.raises(ValueError, match="--force") as error:
        study_to_resume(tmp_path)
    assert f"churn trace {fixed} was {recorded[str(fixed)]}, is {now}" in str(error.value)
    assert f"churn trace {chosen} was {recorded[str(chosen)]}, is unreadable" in str(error.value)
    assert len(study_to_resume(tmp_path, force=True).trials) == 4


def test_code_that_decides_rows_and_has_changed_is_named(tmp_path: Path) -> None:
    write_run_info(tmp_path, info(method_settings=method_settings(["bippo", "fedavg"])))
    record = json.loads((tmp_path / "run.json").read_text())
    assert record["packages"]["bippo-rllib"] and record["method_settings"]["bippo"]["lr"] == 0.001
    assert study_to_resume(tmp_path).notes == ()
    record["commit"] = "0" * 40
    record["method_settings"]["bippo"].update(lr=0.5, gone=1)
    del record["method_settings"]["bippo"]["epsilon"]  # as if it had come later
    record["packages"]["bippo-rllib"] = "0.0.1"
    (tmp_path / "run.json").write_text(json.dumps(record))
    changes = "package bippo-rllib was 0.0.1, is [^;]*; bippo gone was 1, is not set; bippo lr was 0.5, is 0.001"
    with pytest.raises(ValueError, match=f"{changes}.*--force"):
        study_to_resume(tmp_path)
    differs, *other_commit = study_to_resume(tmp_path, force=True).notes
    assert re.search(changes, differs) and (not git_commit() or "run by commit 0000" in other_commit[0])
    for key in ("method_settings", "custom_modules", "networks"):  # a record of before
        del record[key]
    del record["packages"]["bippo-rllib"]
    (tmp_path / "run.json").write_text(json.dumps(record))
    assert len(study_to_resume(tmp_path).notes) == (git_commit() is not None)


TINY = ["--methods", "bippo", "--seeds", "7", "--rounds", "60", "--checkpoint-every", "7", "--parallel-trials", "1"]


@pytest.mark.ray
@pytest.mark.slow
def test_a_study_that_is_told_to_stop_says_how_to_go_on(tmp_path: Path) -> None:
    folder = tmp_path / "stopped"
    code, stderr = run_and_signal(TINY, folder, 2, signal.SIGTERM)
    assert code == tune_bippo.EXIT_INTERRUPTED
    interrupted, hint = stderr.strip().splitlines()
    assert interrupted.startswith("interrupted") and hint == f"resume with: bippo tune --resume {folder}"
    assert rows_so_far(folder) >= 2


SEARCH = ["--methods", "bippo", "--seeds", "7", "--rounds", "12", "--checkpoint-every", "2", "--parallel-trials", "1"]
SEARCH += ["--search", "lr=loguniform(1e-4,1e-1)", "epsilon_decay=uniform(0.5,0.9)", "--num-samples", "3"]
SIX_CLIENTS = ["--set", "env.num_clients=6", "env.local_epochs=1", "env.budget_share=0.6"]
SEARCH += SIX_CLIENTS


@pytest.mark.slow
def test_a_search_cut_short_goes_on_with_the_same_draws_and_decisions(
    ray_session: None,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    blank_figures: None,
) -> None:
    undisturbed, copy = tmp_path / "undisturbed", tmp_path / "copy"
    with monkeypatch.context() as patch:
        patch.setattr(tune, "Tuner", TunerHere)
        patch.setattr(tune_bippo, "_print_report", lambda study: None)
        Snapshot(undisturbed, copy, "bippo-seed7-00001", round_number=5).attach(patch)  # the first trial has ended
        assert tune_bippo.main([*SEARCH, "--results-dir", str(undisturbed)]) == 0
    assert finished(copy / "bippo-seed7-00000", 12) and not finished(copy / "bippo-seed7-00001", 12)
    assert not (copy / "bippo-seed7-00002").exists()
    before = (copy / "bippo-seed7-00000" / ROWS_FILE).read_bytes()
    capsys.readouterr()
    pids: set[int] = set()
    with monkeypatch.context() as patch:
        patch.setattr(tune_bippo, "_print_report", lambda study: None)
        patch.setattr(Progress, "on_trial_save", lambda self, trial, **info: pids.add(trial.last_result["pid"]))
        assert tune_bippo.main(["--resume", str(copy), "--parallel-trials", "1"]) == 0
    assert "resuming 2 trials of 12 rounds (of 3 trials)" in capsys.readouterr().out
    assert (copy / "bippo-seed7-00000" / ROWS_FILE).read_bytes() == before
    assert_same_rows(copy, undisturbed)
    assert len(pids) == 1  # a process takes one trial after the other
    rows = read_rows(copy)
    assert rows["setting"].nunique() == 3
    # One trial at a time, so ASHA's decisions are the same too; some of them stopped a trial.
    assert read_decisions(copy / JOURNAL_FILE) == read_decisions(undisturbed / JOURNAL_FILE)
    assert stopped_trials(copy) and rows.groupby("trial").size().min() < 12
    assert tune_bippo.main(["--resume", str(copy)]) == 0  # what was stopped early counts as finished
    assert "nothing is left of 3 trials" in capsys.readouterr().out and (copy / "report.md").exists()


def test_a_results_folder_takes_one_study_at_a_time(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with study_lock(tmp_path / "results"):
        assert tune_bippo.main([*TINY, "--results-dir", str(tmp_path / "results")]) == 2
    assert "error: another study is running in" in capsys.readouterr().err
    with study_lock(tmp_path / "results"):
        pass  # free again


def test_a_study_with_churn_reads_back_unchanged(tmp_path: Path) -> None:
    churn = SCENARIOS["churn"]
    federation = churn.federation_for(60)
    write_run_info(tmp_path, info(scenario="churn", rounds=60, federation=federation))
    assert len(study_to_resume(tmp_path).trials) == 2
    record = json.loads((tmp_path / "run.json").read_text())
    record["federation"]["churn"][0]["round"] = 31
    (tmp_path / "run.json").write_text(json.dumps(record))
    with pytest.raises(ValueError, match="scenario churn was"):
        study_to_resume(tmp_path)


def study_arguments(folder: Path, *more: str) -> list[str]:
    """Three methods whose learners, samplers and states differ."""
    study = ["--methods", "bippo", "ppo", "oort", "--seeds", "7", "--checkpoint-every", "2", "--parallel-trials", "1"]
    return [*study, *SIX_CLIENTS, "--results-dir", str(folder), *more]


@pytest.mark.slow
def test_a_finished_study_is_extended_and_repeated(
    tune_here: None, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tune_bippo, "_print_report", lambda study: None)
    extended, undisturbed, repeated = tmp_path / "extended", tmp_path / "undisturbed", tmp_path / "repeated"
    assert tune_bippo.main(study_arguments(extended, "--rounds", "6")) == 0
    until_then = read_rows(extended)
    assert tune_bippo.main(["--resume", str(extended), "--rounds", "9", "--checkpoint-every", "2"]) == 0
    assert "resuming 3 trials of 9 rounds" in capsys.readouterr().out
    assert tune_bippo.main(study_arguments(undisturbed, "--rounds", "9")) == 0
    assert_same_rows(extended, undisturbed)
    assert rows_so_far(extended) == 9 and final_state(extended / "bippo-seed7") == final_state(
        undisturbed / "bippo-seed7"
    )
    kept = read_rows(extended).query("round <= 6").reset_index(drop=True)
    pd.testing.assert_frame_equal(*(r.drop(columns=list(TIMING_COLUMNS)) for r in (kept, until_then)), check_exact=True)
    assert tune_bippo.main(["--config", str(extended / "run.json"), "--results-dir", str(repeated)]) == 0
    assert_same_rows(repeated, undisturbed)
    record = read_run_info(repeated)
    assert (record.rounds, record.resumed) == (9, []) and "--config" in record.command


def test_what_would_be_another_study_is_not_extended(tmp_path: Path) -> None:
    for why, changes in {
        "less than the 60": {"rounds": 60, "federation": dict(SCENARIOS["digits"].federation)},
        "when clients of churn join": {"scenario": "churn", "federation": SCENARIOS["churn"].federation_for(6)},
        "which settings a search stops": {"search": {"lr": "choice([0.1])"}, "draws": [{"lr": "0.1"}]},
    }.items():
        write_run_info(tmp_path, info(**changes))
        with pytest.raises(ValueError, match=why):
            study_to_resume(tmp_path, rounds=9, force=True)
    trace = tmp_path / "trace.csv"
    trace.write_text("client,join_round,leave_round\n0,7,\n")
    settings = {"env.churn_trace": str(trace)}
    write_run_info(
        tmp_path, info(settings=settings, federation={**SCENARIOS["digits"].federation, "churn_trace": str(trace)})
    )
    assert study_to_resume(tmp_path, rounds=7).rounds == 7
    with pytest.raises(ValueError, match="clients that join after round 6"):
        study_to_resume(tmp_path, rounds=9)


@pytest.mark.parametrize("flag", ["--resume", "--config"])
def test_what_a_record_says_is_not_said_again(tmp_path: Path, flag: str, capsys: pytest.CaptureFixture[str]) -> None:
    write_run_info(tmp_path, info())
    assert tune_bippo.main([flag, str(tmp_path), "--seeds", "8"]) == 2
    assert "leave out --seeds" in capsys.readouterr().err
    for content, problem in (("{", "is no record of a study: Invalid JSON"), (None, "has no run.json")):
        (tmp_path / "run.json").unlink() if content is None else (tmp_path / "run.json").write_text(content)
        assert tune_bippo.main([flag, str(tmp_path)]) == 2
        assert problem in capsys.readouterr().err
