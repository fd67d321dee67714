"""The Ray Tune study, end to end on a tiny federation, and its parts without Ray."""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from io import StringIO
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from study_runs import assert_same_rows

from envs.settings.execution import Execution
from experiments.report.summary import build_report
from experiments.results.checkpoints import finished
from experiments.results.row_schema import COLUMN_NAMES, TIMING_COLUMNS
from experiments.results.rows import read_rows
from experiments.results.setting_text import as_text, from_text
from experiments.scenarios import Scenario
from experiments.study.asha_journal import read_decisions, stopped_trials
from experiments.study.checks import check_study
from experiments.study.failure import Failure, failure_of
from experiments.study.placement import Placement
from experiments.study.run import run_study
from experiments.study.scheduler import SeedwiseASHA
from experiments.study.search import drawn_settings
from experiments.study.study import Study, Trial
from experiments.study.trial_config import config_of, param_space

TINY = Scenario(
    name="tiny",
    description="four clients",
    federation={
        "dataset": "digits",
        "num_clients": 4,
        "train_samples": 20,
        "test_samples": 10,
        "local_epochs": 1,
        "budget_share": 0.6,
    },
    rounds=3,
    target_accuracy=0.8,
)
METHODS = ("bippo", "fedavg")


def tiny_study(folder: Path, **changes: object) -> Study:
    return Study(scenario=TINY, rounds=3, results_dir=folder, checkpoint_every=50, **changes)  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def ended(ray_session: None, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[Failure]]:
    """Two methods side by side, after one that there is not, and before another one, in a process of theirs."""
    folder = tmp_path_factory.mktemp("study") / "side-by-side"
    return folder, run_study(tiny_study(folder, methods=("broken", *METHODS, "wrong"), seeds=(28,), parallel_trials=2))


@pytest.fixture(scope="module")
def results(ended: tuple[Path, list[Failure]]) -> Path:
    """Its folder."""
    return ended[0]


def test_a_study_without_a_counter_says_so_and_uses_the_formula(
    tune_here: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("envs.training.energy_counters.POWERCAP", tmp_path / "none")
    said, asked = StringIO(), {"methods": ("fedavg",), "seeds": (7,), "parallel_trials": 1}
    for meter in ("formula", "rapl"):
        study = tiny_study(tmp_path / meter, settings={"env.energy_meter": meter}, **asked)
        assert run_study(study, said) == []
    (line,) = [line for line in said.getvalue().splitlines() if line.startswith("energy_meter rapl cannot be read, ")]
    assert f"no processor package in {tmp_path / 'none'}" in line
    assert_same_rows(tmp_path / "formula", tmp_path / "rapl")


def test_every_trial_has_every_round(results: Path) -> None:
    rows = read_rows(results)
    assert tuple(rows.columns) == COLUMN_NAMES
    assert rows.groupby(["method", "seed"])["round"].apply(list).to_dict() == {
        (method, 28): [1, 2, 3] for method in METHODS
    }


def test_energy_stays_within_the_budget_and_selections_are_maximal(results: Path) -> None:
    for row in read_rows(results).itertuples():
        costs = dict(zip(row.clients, row.costs_j, strict=True))
        assert row.energy_j == pytest.approx(sum(costs[client] for client in row.trained), rel=1e-12)
        assert row.energy_j <= row.budget_j * (1 + 1e-9)
        cheapest_left = min(cost for client, cost in costs.items() if client not in row.trained)
        assert row.energy_j + cheapest_left > row.budget_j * (1 + 1e-9)


def test_rows_join_environment_sampler_and_timings(results: Path) -> None:
    rows = read_rows(results)
    bippo, fedavg = rows[rows["method"] == "bippo"], rows[rows["method"] == "fedavg"]
    np.testing.assert_allclose(bippo["epsilon"], [1.0, 0.9, 0.81])
    assert fedavg["epsilon"].isna().all()
    assert (rows["mean_accuracy"] == rows["accuracies"].map(np.mean)).all()
    for row in rows.itertuples():
        assert len(row.suggestions) == 4 and row.scores == pytest.approx(row.suggestions, rel=1e-6)
        assert row.rewards.tolist() == [row.reward] * 4
    assert (rows["num_trained"] == rows["trained"].map(len)).all() and (rows["num_clients"] == 4).all()
    assert (rows["fl_seconds"] > 0).all() and (rows["rl_seconds"] > 0).all()


def test_the_results_folder_holds_logs_checkpoints_and_provenance(results: Path) -> None:
    trials = sorted(path.name for path in results.iterdir() if path.is_dir())
    ran = ["bippo-seed28", "fedavg-seed28"]
    assert trials == ["bippo-seed28", "broken-seed28", "fedavg-seed28", "wrong-seed28"]
    for trial in ran:
        assert list((results / trial).glob("events.out.tfevents.*"))
        assert list((results / trial).glob("checkpoint_*"))
    assert [path.name for path in results.rglob("*.parquet")] == ["rows.parquet"] * 2
    run = json.loads((results / "run.json").read_text())
    assert run["seeds"] == [28] and run["federation"]["num_clients"] == 4 and run["packages"]["ray"]
    assert sorted(run["warmup_energy_j"]) == ran and min(run["warmup_energy_j"].values()) > 0


def test_a_trials_checkpoint_restores_outside_of_the_study(results: Path) -> None:
    from bippo_rllib import Bippo

    (checkpoint,) = (results / "bippo-seed28").glob("checkpoint_*")
    written = (results / "bippo-seed28" / "rows.parquet").read_bytes()
    algo = Bippo.from_checkpoint(str(checkpoint))
    try:
        assert algo.iteration == 3
        assert algo.sampler.epsilon == pytest.approx(0.729)
    finally:
        algo.stop()
    assert (results / "bippo-seed28" / "rows.parquet").read_bytes() == written


def test_rows_depend_neither_on_the_trials_beside_nor_on_the_process(
    results: Path, tune_here: None, tmp_path: Path
) -> None:
    alone = tiny_study(tmp_path / "one-by-one", methods=METHODS[::-1], seeds=(7, 28), parallel_trials=1)
    check_study(alone)
    assert run_study(alone) == []
    assert build_report(alone.results_dir).shortfalls == []
    rows = read_rows(alone.results_dir)
    assert rows.groupby(["method", "seed"])["round"].apply(list).to_dict() == {
        (method, seed): [1, 2, 3] for method in METHODS for seed in (7, 28)
    }
    timings, order = list(TIMING_COLUMNS), ["method", "round"]
    same, expected = (
        each.drop(columns=timings).sort_values(order, ignore_index=True)
        for each in (rows[rows["seed"] == 28], read_rows(results))
    )
    pd.testing.assert_frame_equal(same, expected, check_exact=True)


@pytest.mark.parametrize(
    ("changes", "share"),
    [
        ({}, True),
        ({"settings": {"env.model": "cnn_small", "lr": 0.1}, "search": {"env.lr": "uniform(0.1, 1)"}}, True),
        ({"settings": {"env.device": "cuda:0", "env.churn_trace": "C:/trace.csv", "env.compile": False}}, True),
        ({"methods": ("bippo", "mine:in_turn")}, False),
        ({"settings": {"env.compile": True}}, False),
        ({"settings": {"env.energy_meter": "mine:joules"}}, False),
        ({"search": {"env.model": "choice(['cnn', 'mine:build'])"}, "num_samples": 8}, False),
    ],
)
def test_what_may_remember_a_trial_gets_a_process_for_each(tmp_path, changes, share) -> None:
    study = tiny_study(tmp_path, **{"methods": METHODS, "seeds": (7,), **changes})
    assert study.share_processes == share


def test_a_failed_trial_is_reported_and_the_others_are_kept(ended: tuple[Path, list[Failure]]) -> None:
    folder, failures = ended
    assert [failure.trial for failure in failures] == ["broken-seed28", "wrong-seed28"]
    for name, failure in zip(("broken", "wrong"), failures, strict=True):
        assert failure.cause.startswith(f"ValueError: unknown method '{name}': known are bippo, ippo")
        assert "ValueError" in Path(failure.error_file).read_text()
    assert build_report(folder).shortfalls == ["broken with seed 28 has no rows", "wrong with seed 28 has no rows"]


def test_a_point_of_the_search_space_becomes_a_config() -> None:
    tiny = tiny_study(
        Path("/nowhere"),
        methods=("ippo",),
        seeds=(3,),
        settings={"gamma": 0.5, "env.reward_base": 2.0},
        search={"lr": "loguniform(1e-4,1e-2)", "env.local_epochs": "choice([2])"},
    )
    check_study(tiny)
    space = param_space(tiny, Placement(1, Execution("serial")))
    point = {
        **space,
        "trial": asdict(Trial("ippo", 3, number=0, search={"lr": 0.00123, "env.local_epochs": 2})),
    }
    config = config_of(point)
    assert (config.sampler, config.seed, config.lr, config.gamma) == ("stochastic", 3, 0.00123, 0.5)
    env = config.env(config.env_config).parallel_env
    assert (env.config.local_epochs, env.config.reward_base, env.config.rounds, env.config.seed) == (2, 2.0, 3, 3)


def test_trials_are_told_where_data_lies(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """They run in other folders, and in processes that may have been started before the variable was set."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("BIPPO_DATA", "data")
    by_variable = tiny_study(Path("/nowhere"), methods=("ippo",), seeds=(3,))
    by_flag = replace(by_variable, data_dir="/flag")
    serial = Placement(1, Execution("serial"))
    found = [param_space(study, serial)["federation"]["data_dir"] for study in (by_variable, by_flag)]
    assert found == [str(tmp_path / "data"), "/flag"]
    assert "data_dir" not in by_variable.run_info.federation  # resumed, the study asks the variable again


def asha_decides(scheduler: SeedwiseASHA, seed: int, number: int, accuracy: float, iteration: int = 2) -> str:
    """What becomes of a trial of a search with that accuracy."""
    trial = SimpleNamespace(config={"trial": asdict(Trial("bippo", seed, number=number))})
    scheduler.on_trial_add(None, trial)
    return scheduler.on_trial_result(None, trial, {"training_iteration": iteration, "accuracy": accuracy})


def test_asha_compares_settings_within_a_seed_only(tmp_path: Path) -> None:
    scheduler = SeedwiseASHA("accuracy", 8, tmp_path / "asha.jsonl")
    # A hard seed: its only setting goes on though another seed is far better; a worse setting of the easy seed stops.
    assert asha_decides(scheduler, 7, 0, 0.9) == "CONTINUE"
    assert asha_decides(scheduler, 28, 1, 0.1) == "CONTINUE"
    assert asha_decides(scheduler, 7, 2, 0.5) == "STOP"


def test_asha_goes_on_with_what_its_journal_says(tmp_path: Path) -> None:
    journal = tmp_path / "asha.jsonl"
    first = SeedwiseASHA("accuracy", 8, journal)
    assert [asha_decides(first, 7, number, a) for number, a in enumerate((0.9, 0.5))] == ["CONTINUE", "STOP"]
    assert asha_decides(first, 7, 0, 0.9, iteration=3) == "CONTINUE"  # no rung: nothing to remember
    assert stopped_trials(tmp_path) == {"bippo-seed7-00001": 2}
    with journal.open("ab") as file:
        file.write(b'\n{"trial": [], "method": "", "seed": 7, "iteration": 2, "value": 0.1, "stop": true}\n\xff\n[1]')
        file.write(b'\n{"trial": "bippo-seed7-000')  # killed while it wrote
    for _ in range(2):  # resumed, and resumed once more
        again = SeedwiseASHA("accuracy", 8, journal)
        # The same trials once more: neither is recorded twice, and the stopped one is stopped although it is better.
        assert asha_decides(again, 7, 0, 0.9) == "CONTINUE"
        assert asha_decides(again, 7, 1, 0.99, iteration=1) == "CONTINUE"
        assert asha_decides(again, 7, 1, 0.99) == "STOP"
    # The median of 0.9 and 0.5 is 0.7. Without the journal the first to come would always go on.
    assert asha_decides(again, 7, 2, 0.69) == "STOP"
    assert [d.trial[-1] for d in read_decisions(journal)] == ["0", "1", "2"]
    # Now 0.9, 0.69, 0.5.
    assert asha_decides(SeedwiseASHA("accuracy", 8, journal), 7, 3, 0.68) == "STOP"


def test_draws_are_the_same_every_time_and_survive_run_json() -> None:
    search = {"lr": "loguniform(1e-4,1e-2)", "num_epochs": "randint(2,9)", "env.alpha": "choice([(1, 2), 'a', None])"}
    draws = drawn_settings({**search, "gamma": "grid_search([0.5, 0.9])"}, 3, seed=7)
    assert draws == drawn_settings({**search, "gamma": "grid_search([0.5, 0.9])"}, 3, seed=7)
    assert from_text(json.loads(json.dumps(as_text(draws)))) == draws
    # Each of the three draws with both values of the grid.
    assert [draw["gamma"] for draw in draws] == [0.5, 0.9] * 3
    assert [draw["lr"] for draw in draws[::2]] == [draw["lr"] for draw in draws[1::2]]
    assert len({draw["lr"] for draw in draws}) == 3 and draws != drawn_settings(search, 3, seed=8)
    study = tiny_study(Path("/x"), methods=("bippo", "ippo"), seeds=(7,), search=search, num_samples=3)
    names = [start.name for start in study.trials]
    assert names[:3] == ["bippo-seed7-00000", "ippo-seed7-00001", "bippo-seed7-00002"] and len(study.trials) == 6


@pytest.mark.parametrize(
    ("error", "cause"), [("The actor died unexpectedly\n\tpid: 7\nout of memory\n", "out of memory"), ("", "unknown")]
)
def test_of_an_error_of_rays_own_the_last_line_is_the_cause(error: str, cause: str) -> None:
    assert failure_of(SimpleNamespace(path="/r/bippo-seed7", error=error)) == Failure(
        "bippo-seed7", cause, "/r/bippo-seed7/error.txt"
    )


def test_a_trial_ends_where_all_clients_have_left_and_is_not_run_again(tune_here: None, tmp_path: Path) -> None:
    leaving = tiny_study(tmp_path / "leaving", methods=("ppo",), seeds=(7,), settings={"env.churn_leave_rate": 1.0})
    assert run_study(leaving) == []
    assert read_rows(leaving.results_dir)["round"].tolist() == [1]
    assert build_report(leaving.results_dir).shortfalls == [
        "ppo with seed 7 has 1 of 3 rounds, after which no client was left"
    ]
    assert finished(leaving.results_dir / "ppo-seed7", rounds=3)
