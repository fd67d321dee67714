"""The command line: bad input gives one line on stderr and exit code 2, before any study starts."""

from __future__ import annotations

import argparse
import dataclasses
import os
import pydoc
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from row_factory import make_rows, write_trial
from source_tree import ROOT

from experiments import tune_bippo
from experiments.benchmark import __main__ as benchmark
from experiments.cli import exit_code
from experiments.methods import METHODS
from experiments.report import command as report
from experiments.scenarios import SCENARIOS
from experiments.study import messages, ray_session
from experiments.study.failure import Failure
from experiments.study.run import run_study
from experiments.study.study import Study


@pytest.fixture(autouse=True)
def no_study(monkeypatch: pytest.MonkeyPatch) -> None:
    """No test of this file may get as far as starting Ray."""
    monkeypatch.delenv("BIPPO_DATA", raising=False)
    monkeypatch.setattr(tune_bippo, "run_study", lambda study: pytest.fail(f"started {study}"))


def refusal(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> str:
    """The one line with which the command refuses `arguments`."""
    assert tune_bippo.main(arguments) == 2
    captured = capsys.readouterr()
    (line,) = captured.err.splitlines()
    assert line.startswith("error: ") and captured.out in ("", f"{tune_bippo.LOADING}\n")
    return line


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("--seeds 0-4294967295", "10,000 seeds"),
        ("--seeds 1-3,2", "--seeds has 2 twice"),
        ("--methods bippo,,fedavg", "has an empty name"),
        ("--parallel-trials 0", "argument --parallel-trials: 0 is too small"),
        ("--checkpoint-every -5", "argument --checkpoint-every: -5 is too small"),
        ("--search lr", "--search 'lr' is not key=value"),
        ("--search lr=uniform(2)", "--search lr=uniform(2):"),
        ("--search gamma=uniform(1.1,1.5)", "--search draws gamma=1."),
        ("--search num_epochs=grid_search([2,0])", "--search draws num_epochs=0: num_epochs is 0"),
        ("--search epsilon=choice([2])", "--search draws epsilon=2: epsilon"),
        (
            "--set min_time_s_per_iteration=1",
            "min_time_s_per_iteration is 1; BIPPO supports None or 0 only",
        ),
        ("--set policies=1", "setting policies=1: expected a dict"),
        ("--set callbacks_class=1", "use --callbacks"),
        ("--set log_level=FOO", "setting log_level is 'FOO'; choose one of DEBUG, INFO"),
        ("--set callbacks_on_sample_end=1", "setting callbacks_on_sample_end cannot be given here: it is a function"),
        ("--set env=foo", "--set env: use --scenario for this one"),
        ("--set env.device=meta", "env.device is 'meta'; it cannot be used"),
        (
            "--search env.device=grid_search(['cpu','nonsense'])",
            "draws env.device=nonsense: env.device is 'nonsense'; it cannot",
        ),
        (f"--set env.lr=1{'0' * 400}", "env.lr is a number of 401 digits"),
        (f"--set env.batch_size=1{'0' * 30}", "env.batch_size is a number of 31 digits"),
        ("--search env.num_clients=grid_search([5,1])", "--search draws env.num_clients=5: the budget of "),
        ("--search lr=grid_search([])", "--search lr=grid_search([]): there is nothing in the list"),
        (
            "--search lr=quniform(0.1,0.9,0)",
            "--search lr=quniform(0.1,0.9,0): the step (the last argument) must be above 0",
        ),
        (
            "--search env.num_clients=grid_search([20,4]) env.budget_share=grid_search([0.3,0.1])",
            "--search draws env.budget_share=0.1 env.num_clients=4: the budget of",
        ),
        ("--search env.local_epochs=grid_search([1,0])", "--search draws env.local_epochs=0: env.local_epochs is 0"),
        ("--search lr=loguniform(1e-4,1e-2) --methods fedavg", "fedavg learns nothing"),
        ("--search lr=uniform(0,1) --set lr=0.1", "lr is in --set and in --search"),
        ("--set env.alph=0.9", "unknown setting 'env.alph': did you mean env.alpha"),
        ("--set num_env_runners=1", "num_env_runners is 1; BIPPO supports 0 only"),
        ("--set env.num_clients=0", "error: env.num_clients is 0; it must be"),
        ("--set env.lr=-1", "error: env.lr is -1; it must be"),
        ("--set env.lr=0.1 lr=-1", "error: lr is -1; it must be"),
        ("--num-actors 0", "error: --num-actors is 0; it must be"),
        ("--cpus-per-actor -1", "error: --cpus-per-actor is -1.0; it must be"),
        ("--gpus-per-actor 1.5", "error: --gpus-per-actor is 1.5; it must be"),
        ("--executor ray --num-actors 999", "lower --num-actors, --cpus-per-actor or --gpus-per-actor, or give"),
        ("--executor ray --set env.device=cuda", "error: env.device is 'cuda'; --executor='ray' trains on"),
        ("--set env.budget_j=1e-9", "client_000"),
        ("--set epsilon=0.2 --methods fedavg", "epsilon is 0.2; it changes nothing in fedavg, only in bippo"),
        ("--frobnicate", "unrecognized arguments: --frobnicate; "),
    ],
)
def test_bad_input_is_one_line(arguments: str, message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert message in refusal(arguments.split(), capsys)


def test_missing_data_names_the_ways_to_get_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    line = refusal(["--scenario", "fashion-mnist", "--data-dir", str(tmp_path)], capsys)
    assert str(tmp_path) in line and "BIPPO_DATA" in line


def test_a_corrupt_data_file_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("train-images-idx3", "train-labels-idx1", "t10k-images-idx3", "t10k-labels-idx1"):
        (tmp_path / f"{name}-ubyte.gz").write_bytes(b"no gzip")
    assert "-ubyte" in refusal(["--scenario", "fashion-mnist", "--data-dir", str(tmp_path)], capsys)


def test_a_results_folder_that_is_a_file_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "file").write_text("")
    assert "is a file; name a folder" in refusal(["--results-dir", str(tmp_path / "file")], capsys)


def test_only_methods_that_ask_are_refused_for_what_asking_costs(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    started: list[Study] = []
    monkeypatch.setattr(tune_bippo, "run_study", lambda study: started.append(study) or [])
    probing, there = "env.probing_epochs={}", ["--results-dir", str(tmp_path / "r"), "--methods", "fedavg"]
    assert tune_bippo.main([*there, "poc", "--set", probing.format(0.1)]) == 0 and len(started) == 1
    capsys.readouterr()
    assert "probing all 20 clients takes" in refusal([*there, "poc", "--set", probing.format("1e9")], capsys)
    assert "env.probing_epochs is 1000000000.0; no method here is charged for it" in refusal(
        [*there, "--set", probing.format("1e9")], capsys
    )


def test_a_setting_of_the_federation_must_be_read_for_one_of_the_methods(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    started: list[Study] = []
    monkeypatch.setattr(tune_bippo, "run_study", lambda study: started.append(study) or [])
    judges = ["--set", "env.credit_clients=3", "--results-dir", str(tmp_path / "r"), "--methods", "bippo"]
    assert "env.credit_clients is 3; with env.reward='accuracy_change' nothing reads it" in refusal(judges, capsys)
    assert tune_bippo.main([*judges, "bippo-r"]) == 0 and len(started) == 1
    capsys.readouterr()
    # What the scenario says of a partition that is not used is no mistake of the user's.
    other = ["--scenario", "digits-dirichlet", "--set", "env.partition=iid", "--results-dir", str(tmp_path / "r")]
    assert tune_bippo.main(other) == 0
    capsys.readouterr()
    assert "0.107" in refusal(["--set", "env.budget_share=10.7"], capsys)


def test_a_read_only_results_folder_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert "cannot be written" in refusal(["--results-dir", "/proc/new"], capsys)  # not even root writes there


def test_a_results_folder_of_another_run_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_trial(tmp_path / "old", make_rows([0.5]))
    for folder in (tmp_path, tmp_path / "old", tmp_path / "old" / "bippo-seed7"):
        assert f"--results-dir {tmp_path}/digits-" in refusal(["--results-dir", str(folder)], capsys)
    (tmp_path / "old" / "run.json").write_text("{}")
    assert f"--resume {tmp_path}/old" in refusal(["--results-dir", str(tmp_path / "old")], capsys)


def test_list_shows_every_name_with_a_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert tune_bippo.main(["--list"]) == 0
    lines = capsys.readouterr().out.splitlines()
    for name in ("digits", "fashion-mnist", "cifar10", "bippo", "ippo", "fedavg"):
        assert sum(line.strip().startswith(f"{name} ") for line in lines) == 1


def test_help_shows_examples_and_where_data_comes_from(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stopped:
        tune_bippo.main(["--help"])
    assert stopped.value.code == 0
    text = capsys.readouterr().out
    unbroken = "".join(text.split())
    assert f"{','.join(SCENARIOS)};" in unbroken and ",".join(METHODS) in unbroken
    assert "pydocbippo_rllib.BippoConfig.training`" in unbroken and "pydocenvs.FederationConfig`" in unbroken
    assert pydoc.locate("bippo_rllib.BippoConfig.training") and pydoc.locate("envs.FederationConfig")
    assert "--search" in text and "BIPPO_DATA" in text and "bippo report RESULTS_DIR" in text


def flags_of(parser: argparse.ArgumentParser) -> Iterator[argparse.Action]:
    """Every argument of a command and of its sub-commands."""
    for action in parser._actions:
        yield action
        for command in action.choices.values() if isinstance(action.choices, dict) else ():
            yield from flags_of(command)


@pytest.mark.parametrize("parser", [tune_bippo.parser(), report.parser(), benchmark.parser()])
def test_no_argument_takes_an_empty_text_for_something(parser: argparse.ArgumentParser) -> None:
    typed = [action for action in flags_of(parser) if action.type is not None]
    assert len(typed) >= 4
    for action in typed:
        with pytest.raises((ValueError, argparse.ArgumentTypeError)):
            action.type("")
            pytest.fail(f"{action.dest} takes an empty text")


def test_flags_of_sub_commands_are_suggested_too(capsys: pytest.CaptureFixture[str]) -> None:
    assert benchmark.main(["rl", "--ouput", "x"]) == 2
    assert "--ouput x; did you mean --output" in capsys.readouterr().err


def study_for(arguments: str) -> Study:
    """The study that a command line asks for."""
    argv = arguments.split()
    return tune_bippo.study_of(tune_bippo.parser().parse_args(argv), argv)


def test_the_default_study() -> None:
    study = study_for("")
    assert (study.scenario.name, study.methods, study.seeds) == ("digits", ("bippo-s", "bippo", "fedavg"), (7, 28, 42))
    assert (len(study.trials), study.rounds) == (9, study.scenario.rounds)
    assert study.results_dir.parent == Path.cwd() / "results" and study.results_dir.name.startswith("digits-2")


def test_all_flags_reach_the_study(tmp_path: Path) -> None:
    study = study_for(
        f"--scenario fashion-mnist --methods ippo --seeds 1 2 --rounds 9 --data-dir {tmp_path} "
        f"--results-dir {tmp_path}/r --parallel-trials 3 --checkpoint-every 4 --set lr=0.0005 env.budget_share=0.2 "
        "--search gamma=uniform(0.8,0.95) --num-samples 5"
    )
    assert (study.methods, study.seeds, study.rounds, len(study.trials)) == (("ippo",), (1, 2), 9, 10)
    assert (study.results_dir, study.data_dir) == (tmp_path / "r", str(tmp_path))
    assert (study.parallel_trials, study.checkpoint_every) == (3, 4)
    assert study.settings == {"lr": 0.0005, "env.budget_share": 0.2}
    assert (study.federation["budget_share"], study.federation["dataset"]) == (0.2, "fashion_mnist")
    assert study.command.startswith("bippo tune --scenario fashion-mnist")


def test_lists_may_be_ranges_and_separated_by_commas() -> None:
    study = study_for("--seeds 3 1-2,7 --methods ippo,fedavg bippo")
    assert (study.seeds, study.methods) == ((3, 1, 2, 7), ("ippo", "fedavg", "bippo"))


def test_a_search_is_for_methods_that_learn() -> None:
    study = study_for("--search lr=loguniform(1e-4,1e-2)")
    assert (study.methods, len(study.trials)) == (("bippo",), 3 * 8)


def test_an_interrupted_study_reports_what_it_has(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], blank_figures: None
) -> None:
    def interrupted(study: Study) -> None:
        write_trial(study.results_dir, make_rows([0.5] * 12))
        raise KeyboardInterrupt

    monkeypatch.setattr(tune_bippo, "run_study", interrupted)
    assert tune_bippo.main(["--results-dir", str(tmp_path / "r"), "--rounds", "20"]) == 130
    captured = capsys.readouterr()
    assert "interrupted; what was written until now is kept in" in captured.err
    assert "0.500" in captured.out and (tmp_path / "r" / "report.md").exists()


def test_signals_are_as_before_and_the_way_to_go_on_is_said_before_ray_lets_go_of_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    import ray

    said: list[str] = []

    def init(*arguments: object, **keywords: object) -> None:
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(15))
        monkeypatch.setattr(ray, "is_initialized", lambda: True)
        os.kill(os.getpid(), signal.SIGTERM)

    def shutdown() -> None:
        os.kill(os.getpid(), signal.SIGTERM)  # a second one changes nothing
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        said.append(capsys.readouterr().err)

    for name, stand_in in (("init", init), ("shutdown", shutdown), ("is_initialized", lambda: False)):
        monkeypatch.setattr(ray, name, stand_in)
    monkeypatch.setattr(tune_bippo, "run_study", run_study)
    own = {number: (lambda *_: None) for number in (signal.SIGINT, signal.SIGTERM)}
    original = {number: signal.signal(number, handler) for number, handler in own.items()}
    try:
        assert tune_bippo.main(["--seeds", "7", "--results-dir", str(tmp_path / "r")]) == 130
        assert tune_bippo.main(["--list"]) == 0
        assert {number: signal.getsignal(number) for number in own} == own
    finally:
        for number, handler in original.items():
            signal.signal(number, handler)
    assert said[0].endswith(f"\nresume with: bippo tune --resume {tmp_path / 'r'}\n")


def test_failed_trials_are_named_and_the_others_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], blank_figures: None
) -> None:
    def half_failed(study: Study) -> list[Failure]:
        write_trial(study.results_dir, make_rows([0.5] * 12))
        return [Failure("fedavg-seed7", "ValueError: no such thing", "/x/error.txt")]

    monkeypatch.setattr(tune_bippo, "run_study", half_failed)
    assert tune_bippo.main(["--results-dir", str(tmp_path / "r")]) == 1
    captured = capsys.readouterr()
    assert captured.err.splitlines() == [
        "error: trial fedavg-seed7 failed: ValueError: no such thing (whole traceback: /x/error.txt)"
    ]
    assert "0.500" in captured.out


@pytest.mark.parametrize(
    ("failed", "named"),
    [
        ((0, 1), "best setting   none, since all trials have failed"),
        ((0,), "best setting   --methods bippo --set lr=0.2"),
        ((1,), "best setting   --methods bippo --set lr=0.1"),
        ((), "best setting   --methods bippo --set lr=0.1"),
    ],
)
def test_a_setting_is_the_best_only_if_not_all_of_its_trials_failed(
    failed: tuple[int, ...], named: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    study = dataclasses.replace(study_for("--search lr=grid_search([0.1,0.2]) --num-samples 1"), results_dir=tmp_path)
    for number in failed:
        for seed in study.seeds:
            (tmp_path / f"bippo-seed{seed}-{3 * number + study.seeds.index(seed):05d}").mkdir()
            (tmp_path / f"bippo-seed{seed}-{3 * number + study.seeds.index(seed):05d}" / "error.txt").touch()
    messages.print_best_setting(study, [("bippo", "lr=0.1"), ("bippo", "lr=0.2")])
    assert capsys.readouterr().out.startswith(f"{named}\n")


@pytest.mark.parametrize(
    "command",
    [
        (tune_bippo.main, ["--results-dir"]),
        (benchmark.main, ["fl", "--output"]),
        (report.main, ["study", "--collect"]),
    ],
)
def test_a_file_in_the_place_of_a_folder_is_said_before_anything_is_run(command, tmp_path, capsys):
    main, arguments = command
    (tmp_path / "file").write_text("")
    assert main([*arguments, str(tmp_path / "file" / "inside")]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("error: ") and f"{tmp_path / 'file'} is a file; name a folder" in line


def test_a_signal_during_the_report_says_how_to_have_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def run(study: Study) -> list[Failure]:
        write_trial(study.results_dir, make_rows([0.5]))
        return []

    def stopped(study: Study) -> None:
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(5)

    monkeypatch.setattr(tune_bippo, "run_study", run)
    monkeypatch.setattr(tune_bippo, "_print_report", stopped)
    assert tune_bippo.main(["--seeds", "7", "--results-dir", str(tmp_path / "r")]) == tune_bippo.EXIT_INTERRUPTED
    told = capsys.readouterr().err.strip()
    assert told == f"interrupted while reporting; run: bippo report {tmp_path / 'r'}"


def test_rows_that_cannot_be_reported_are_no_success(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def run(study: Study) -> list[Failure]:
        for copy in ("a", "b"):
            write_trial(study.results_dir / copy, make_rows([0.5]))
        return []

    monkeypatch.setattr(tune_bippo, "run_study", run)
    assert tune_bippo.main(["--seeds", "7", "--results-dir", str(tmp_path / "r")]) == 1
    assert "error: no report: " in capsys.readouterr().err


def test_a_churn_trace_is_found_from_a_trials_own_folder(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    started: list[Study] = []
    monkeypatch.setattr(tune_bippo, "run_study", lambda study: started.append(study) or [])
    monkeypatch.chdir(tmp_path)
    Path("trace.csv").write_text("client,join_round,leave_round\n0,0,5\n")
    tune_bippo.main(["--seeds", "7", "--set", "env.churn_trace=trace.csv", "--results-dir", "r"])
    searched = ["--search", "env.churn_trace=grid_search(['trace.csv',None])", "--num-samples", "1"]
    tune_bippo.main(["--seeds", "7", *searched, "--results-dir", "s"])
    assert capsys.readouterr().err == ""
    fixed, searched = started
    assert fixed.settings == {"env.churn_trace": str(tmp_path / "trace.csv")}
    assert [trial.search["env.churn_trace"] for trial in searched.trials] == [str(tmp_path / "trace.csv"), None]


def test_a_ray_that_does_not_start_is_one_line_and_the_study_can_be_resumed(tmp_path, monkeypatch, capsys):
    import ray

    def init(*args, **kwargs):
        raise Exception("The current node timed out during startup.\nMore words.")

    monkeypatch.setattr(tune_bippo, "run_study", run_study)
    monkeypatch.setattr(ray, "init", init)
    monkeypatch.setattr(ray, "is_initialized", lambda: False)
    code = tune_bippo.main(["--seeds", "7", "--rounds", "2", "--results-dir", str(tmp_path / "study")])
    error, hint = capsys.readouterr().err.strip().splitlines()
    assert code == 1
    assert error.startswith("error: Ray did not start on this machine: The current node timed out during startup.; ")
    assert hint.startswith("resume with: bippo tune --resume ")


@pytest.mark.parametrize(
    ("raised", "code", "said"),
    [
        (ValueError("no such thing"), 2, "error: no such thing\n"),
        (KeyboardInterrupt(), 130, "\ninterrupted\n"),
    ],
)
def test_a_command_ends_in_one_line(raised: BaseException, code: int, said: str, capsys: pytest.CaptureFixture[str]):
    def run() -> int:
        raise raised

    assert exit_code(run) == code
    assert capsys.readouterr().err == said


def test_a_reader_that_has_enough_is_no_error(tmp_path: Path) -> None:
    write_trial(tmp_path, make_rows([0.5]))
    command = f"{shlex.quote(sys.executable)} -m experiments.report . --output out | true"
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, shell=True, cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert done.stderr == "" and (tmp_path / "out" / "report.md").exists()


def test_cores_are_those_a_container_may_use_and_an_empty_address_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("joblib.cpu_count", lambda: 2)
    assert [ray_session.local_cpus(asked) for asked in (None, 1, 5)] == [2, 2, 5]
    monkeypatch.setenv("RAY_ADDRESS", "")
    assert ray_session._address() == "local"
