"""Policies of one run as the start of another: weights travel bit for bit, nothing else does; misfits are refused."""

from __future__ import annotations

import json
import os
import pickle
import random
import shutil
import signal
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from ray import tune
from study_runs import TunerHere, assert_same_rows, final_state, run_and_signal

import envs
from bippo_rllib import Bippo, BippoConfig
from bippo_rllib.baselines.central.config import CentralPPOConfig
from bippo_rllib.policies.saved_policies import policies_file, policies_sha256, read_policies
from experiments import tune_bippo
from experiments.results.checkpoints import newest_checkpoint
from experiments.results.row_schema import TIMING_COLUMNS
from experiments.results.rows import read_rows
from experiments.study.resume import study_to_resume

WORLD: dict[str, Any] = {
    "num_clients": 6,
    "train_samples": 20,
    "test_samples": 10,
    "local_epochs": 1,
    "budget_share": 0.5,
    "rounds": 50,
}


def build(config: BippoConfig | None = None, **changes: Any) -> Bippo:
    config = config or BippoConfig()
    config.environment(envs.parallel_env, env_config={**WORLD, **changes})
    return config.debugging(seed=7, log_level="ERROR").build_algo()


@pytest.fixture(scope="module")
def checkpoints(ray_session: None, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Of a policy for each client and of a central network, 12 rounds old, with waiting participations."""
    folder, found = tmp_path_factory.mktemp("source"), {}
    for name, config in (("independent", BippoConfig()), ("central", CentralPPOConfig())):
        algo = build(config)
        for _ in range(13):
            algo.train()
        found[name] = Path(algo.save_to_path(str(folder / name)))
        algo.stop()
    return found


def test_weights_are_the_checkpoints_and_all_else_is_fresh(checkpoints: dict[str, Path]) -> None:
    algo = build(lr=0.01)
    fresh, adam = algo.bank.flat.clone(), algo.learner.adam
    for _ in range(3):
        algo.train()
    algo.load_policies(checkpoints["independent"])
    saved = read_policies(checkpoints["independent"]).state
    ours = algo.bank.get_state()
    assert list(ours) == list(saved) == [f"client_{n:03d}" for n in range(6)]
    assert all((ours[client][name] == saved[client][name]).all() for client in saved for name in saved[client])
    assert not torch.equal(algo.bank.flat, fresh)
    learner = algo.learner
    assert learner.adam is not adam and learner.adam.all.steps.tolist() == [0] * 6
    assert not learner.adam.all.exp_avg.any() and not learner.adam.all.exp_avg_sq.any()
    assert learner.buffer.counts.tolist() == [0] * 6
    assert algo.sampler.epsilon == 0.05
    before = algo.bank.flat.clone()
    for _ in range(4):
        algo.train()
    assert not torch.equal(algo.bank.flat, before)  # it goes on learning
    algo.load_policies(checkpoints["independent"], epsilon=0.3)
    assert algo.sampler.epsilon == 0.3
    algo.stop()


def test_a_central_network_of_the_same_clients_travels_too(checkpoints: dict[str, Path]) -> None:
    algo = build(CentralPPOConfig())
    algo.load_policies(checkpoints["central"])
    saved = read_policies(checkpoints["central"]).state
    algo.train()  # one round: no update yet
    policy, learner = algo.env_runner.module["central"], algo.learner
    assert all((policy.get_state()["parameters"][name] == array).all() for name, array in saved["parameters"].items())
    assert learner.adam.all.steps.tolist() == [0] and len(learner._rounds) == 1
    algo.stop()


def test_misfits_are_refused_with_both_sides(checkpoints: dict[str, Path], tmp_path: Path) -> None:
    independent, central = checkpoints["independent"], checkpoints["central"]
    for algo, source, message in (
        (build(num_clients=8), independent, "only in the checkpoint none, only here client_006, client_007"),
        (build(BippoConfig().training(hidden_size=16)), independent, "of 128 hidden units, expected 16"),
        (build(CentralPPOConfig()), independent, "holds a policy for each client, expected one central"),
        (build(), central, "holds one central network for 6 clients, expected a policy for each client"),
        (build(CentralPPOConfig(), num_clients=8), central, "only here client_006, client_007"),
        (build(), other_observations(independent, tmp_path), "of 6 inputs, expected 5"),
        (build(), tmp_path, "no policies at"),
    ):
        with pytest.raises(ValueError, match=message):
            algo.load_policies(source)
        algo.stop()


@pytest.mark.parametrize(
    "name", [("posix", "system"), ("builtins", "eval"), ("numpy", "load"), ("numpy.x.core", "dtype")]
)
def test_policies_are_read_without_running_what_a_pickle_names(name: tuple[str, str], tmp_path: Path) -> None:
    (tmp_path / "learner_group" / "learner" / "rl_module").mkdir(parents=True)
    file = tmp_path / "learner_group" / "learner" / "rl_module" / "module_state.pkl"
    file.write_bytes(f"c{name[0]}\n{name[1]}\n(S'{tmp_path / 'ran'}'\ntR.".encode())
    with pytest.raises(ValueError, match=f"holds no policies: UnpicklingError: it names {'.'.join(name)}, which is no"):
        read_policies(tmp_path)


@pytest.mark.parametrize("protocol", [3, 4, 5])
def test_policies_in_each_protocol_of_python_3_are_read(
    protocol: int, checkpoints: dict[str, Path], tmp_path: Path
) -> None:
    for name, checkpoint in checkpoints.items():
        copy = shutil.copytree(checkpoint, tmp_path / name)
        policies_file(copy).write_bytes(pickle.dumps(read_policies(checkpoint).state, protocol))
        read, expected = (pickle.dumps(read_policies(folder).state) for folder in (copy, checkpoint))
        assert read == expected


def other_observations(checkpoint: Path, folder: Path) -> Path:
    """A copy of the checkpoint with policies that see one number more."""
    copy = shutil.copytree(checkpoint, folder / "six")
    state = {policy_id: dict(policy) for policy_id, policy in read_policies(checkpoint).state.items()}
    for policy in state.values():
        for network in ("actor", "critic"):
            weight = policy[f"{network}.0.weight"]
            policy[f"{network}.0.weight"] = np.hstack([weight, weight[:, :1]])
    policies_file(copy).write_bytes(pickle.dumps(state))
    return copy


def settings(**changes: Any) -> list[str]:
    return ["--set", *(f"env.{key}={value}" for key, value in (WORLD | changes).items() if key != "rounds")]


def main(*arguments: str) -> int:
    """The command in this process, without a report."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tune, "Tuner", TunerHere)
        patch.setattr(tune_bippo, "_print_report", lambda study: None)
        return tune_bippo.main(arguments)


def run(*arguments: str) -> int:
    return main(*arguments, *settings(), "--seeds", "7", "--parallel-trials", "1")


@pytest.fixture(scope="module")
def pretrained(ray_session: None, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Results of a study of bippo, ippo and fedavg, seed 7."""
    folder = tmp_path_factory.mktemp("pretrained") / "results"
    assert run("--methods", "bippo", "ippo", "fedavg", "--rounds", "9", "--results-dir", str(folder)) == 0
    return folder


def policies_of(trial: Path) -> dict[str, dict[str, np.ndarray]]:
    newest = newest_checkpoint(trial)
    assert newest is not None
    return dict(read_policies(newest.path).state)


def test_each_trial_starts_from_its_own_method_and_seed(pretrained: Path, tmp_path: Path, capsys: Any) -> None:
    folder = tmp_path / "transferred"
    arguments = ["--methods", "bippo", "ippo", "--init-from", str(pretrained), "--results-dir", str(folder)]
    assert run(*arguments, "--rounds", "1") == 0
    assert f"policies from {pretrained} (digits, round 9)" in capsys.readouterr().out
    for trial in ("bippo-seed7", "ippo-seed7"):
        # After one round nobody has taken part twice, so nobody has learned: weights are those that were loaded.
        ours, theirs = policies_of(folder / trial), policies_of(pretrained / trial)
        assert all((ours[client][name] == theirs[client][name]).all() for client in theirs for name in theirs[client])
    different = policies_of(pretrained / "bippo-seed7")["client_000"]["actor.0.weight"]
    assert (different != policies_of(pretrained / "ippo-seed7")["client_000"]["actor.0.weight"]).any()
    assert read_rows(folder).query("method == 'bippo'")["epsilon"].tolist() == [0.05]
    record = json.loads((folder / "run.json").read_text())
    source = record["init_policies"]["bippo-seed7"]
    assert record["init_from"] == str(pretrained)
    assert source["sha256"] == policies_sha256(source["checkpoint"])
    assert (source["round"], source["scenario"], source["method"], source["seed"]) == (9, "digits", "bippo", 7)
    assert source["commit"] == json.loads((pretrained / "run.json").read_text())["commit"]


@pytest.mark.parametrize("kind", ["trial", "checkpoint"])
def test_one_trial_or_checkpoint_serves_all(kind: str, pretrained: Path, tmp_path: Path) -> None:
    trial = pretrained / "bippo-seed7"
    newest = newest_checkpoint(trial)
    assert newest is not None
    source = trial if kind == "trial" else newest.path
    arguments = ["--methods", "bippo", "ippo", "--rounds", "1", "--init-from", str(source)]
    study = tune_bippo.study_of(tune_bippo.parser().parse_args(arguments), arguments)
    assert {found.checkpoint for found in study.initial_policies.values()} == {str(newest.path)}
    assert list(study.initial_policies) == [
        f"{method}-seed{seed}" for method in ("bippo", "ippo") for seed in (7, 28, 42)
    ]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("--init-from {results} --methods bippo fedavg", "fedavg learns nothing, so starting from the policies in"),
        ("--init-from {results} --methods fppo", "no complete checkpoint of fppo with seed 7; it has bippo-seed7, fed"),
        ("--init-from {results}/fedavg-seed7", "is of fedavg, which learns nothing"),
        ("--init-from {results} --set env.num_clients=4", "only in the checkpoint client_004, client_005"),
        ("--init-from {results}/nowhere", "is no results folder (run.json), no trial's folder"),
        ("--init-from {results} --resume {results}", "leave out --init-from"),
    ],
)
def test_what_cannot_be_started_from_is_one_line(
    arguments: str, message: str, pretrained: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    given = arguments.format(results=pretrained).split()
    clients = [] if "env.num_clients" in arguments or "--resume" in arguments else ["env.num_clients=6"]
    others = ["--set", *clients, "env.budget_share=0.5"] if "--resume" not in arguments else []
    seeds = [] if "--resume" in arguments else ["--seeds", "7"]
    assert tune_bippo.main([*given, *others, *seeds]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("error: ") and message in line


def test_a_damaged_checkpoint_is_refused(pretrained: Path, tmp_path: Path, capsys: Any) -> None:
    newest = newest_checkpoint(pretrained / "bippo-seed7")
    assert newest is not None
    copy = shutil.copytree(newest.path, tmp_path / "damaged")
    policies_file(copy).write_bytes(b"half")
    assert run("--methods", "bippo", "--init-from", str(copy)) == 2
    assert "the checkpoint is damaged" in capsys.readouterr().err


@pytest.mark.slow
def test_a_killed_study_ends_with_the_rows_of_an_undisturbed_one(
    pretrained: Path,
    ray_address: str,
    tmp_path: Path,
    capsys: Any,
    monkeypatch: pytest.MonkeyPatch,
    blank_figures: None,
) -> None:
    """Killed for real and at any moment; Ray ends its trial. What it started from is no longer needed then."""
    killed, undisturbed, source = (tmp_path / name for name in ("killed", "undisturbed", "source"))
    shutil.copytree(pretrained, source)
    # Rounds long enough that a signal reaches one; and epsilon decays as it does from scratch.
    study = [*settings(local_epochs=10), "epsilon=1.0", "--methods", "bippo", "--seeds", "7", "--rounds", "30"]
    study += ["--checkpoint-every", "4", "--parallel-trials", "1", "--init-from", str(source)]
    num_rows = random.Random(os.getpid()).randrange(6, 20)
    run_and_signal(study, killed, num_rows, signal.SIGKILL, RAY_ADDRESS=ray_address)
    assert main(*study, "--results-dir", str(undisturbed)) == 0  # meanwhile Ray sees the driver gone
    assert f"policies from {source}" in capsys.readouterr().out
    assert newest_checkpoint(killed / "bippo-seed7") is not None
    shutil.rmtree(source)
    with monkeypatch.context() as patch:
        patch.setattr(tune_bippo, "_print_report", lambda study: None)
        assert tune_bippo.main(["--resume", str(killed)]) == 0
    assert "resuming 1 trial" in capsys.readouterr().out
    assert_same_rows(killed, undisturbed)
    ours, theirs = (final_state(folder / "bippo-seed7") for folder in (killed, undisturbed))
    assert ours == theirs
    assert {"model", "policies", "adam steps", "sampler"} <= ours.keys() and len(ours) >= 9
    assert read_rows(killed)["epsilon"][0] == 1.0
    assert ours["sampler"]["epsilon"] == pytest.approx(0.05)  # 0.9**30 is below
    assert len(json.loads((killed / "run.json").read_text())["resumed"]) == 1
    assert tune_bippo.main(["--resume", str(killed)]) == 0  # nothing is left: the report again
    assert "nothing is left of 1 trial" in capsys.readouterr().out and (killed / "report.md").exists()


def test_starting_over_needs_the_same_policies(pretrained: Path, tmp_path: Path) -> None:
    source, folder = tmp_path / "source", tmp_path / "results"
    shutil.copytree(pretrained, source)
    arguments = ["--methods", "bippo", "--rounds", "2", "--init-from", str(source), "--results-dir", str(folder)]
    assert run(*arguments) == 0
    before = read_rows(folder).drop(columns=list(TIMING_COLUMNS))
    shutil.rmtree(folder / "bippo-seed7")
    assert main("--resume", str(folder)) == 0
    pd.testing.assert_frame_equal(read_rows(folder).drop(columns=list(TIMING_COLUMNS)), before, check_exact=True)
    shutil.rmtree(folder / "bippo-seed7")
    file = policies_file(newest_checkpoint(source / "bippo-seed7").path)  # type: ignore[union-attr]
    file.write_bytes(file.read_bytes() + b"more")
    with pytest.raises(ValueError, match="have changed since the study was started"):
        study_to_resume(folder)
    file.unlink()
    with pytest.raises(ValueError, match="--init-from: no policies at"):
        study_to_resume(folder)
