"""Methods as they are run: what each asks of the federation, and which clients it selects there."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import pytest

from bippo_rllib import Bippo
from envs import ChurnEvent
from envs.round_result import RoundResult
from envs.training import serial_executor
from envs.training.client_worker import ClientWorker
from experiments.custom_methods import check_settings_are_taken
from experiments.methods import METHODS
from experiments.scenarios import DIGITS
from experiments.study.row_callback import RowCallback, TrialInfo
from experiments.study.trial_config import bippo_config

SMALL = {**DIGITS.federation, "num_clients": 8, "budget_share": 0.4, "local_epochs": 1}


CHURN = (ChurnEvent(2, 7, "join"), ChurnEvent(3, 0, "leave"))


def config(method: str, settings: dict[str, Any] | None = None, seed: int = 7, **federation: Any) -> Any:
    info = TrialInfo("digits", method, seed)
    return bippo_config(info, {**SMALL, **federation}, settings or {}, rounds=4)


def infos_after(algo: Bippo) -> dict[str, dict[str, Any]]:
    return {agent: dict(info) for agent, info in algo.env_runner._episode.infos.items()}


def by_hand(scores: dict[str, float], infos: dict[str, dict[str, Any]], preferred: list[str]) -> list[str]:
    """Highest score first, what no longer fits is skipped; among equals, which are drawn, `preferred` go first."""
    left, selected = next(iter(infos.values()))["budget"], []
    for agent in sorted(scores, key=lambda a: (-scores[a], a not in preferred)):
        if infos[agent]["cost"] <= left:
            selected.append(agent)
            left -= infos[agent]["cost"]
    return sorted(selected)


@pytest.mark.parametrize(("method", "key", "sign"), [("poc", "loss", 1.0), ("poca", "accuracy", -1.0)])
def test_heuristics_select_what_a_hand_would(method: str, key: str, sign: float, ray_session: None) -> None:
    algo = config(method).build_algo()
    weights = algo.bank.flat.clone()
    algo.train()
    for _ in range(3):
        infos = infos_after(algo)
        algo.train()
        scores = {agent: sign * info[key] for agent, info in infos.items()}
        selected = [f"client_{client:03d}" for client in algo.parallel_env.last_round.trained]
        assert selected == by_hand(scores, infos, selected)
        assert 0 < len(selected) < 8
    assert algo.bank.flat.equal(weights)
    assert ("loss" in infos["client_000"]) == (method == "poc")
    algo.stop()


class OneFails(ClientWorker):
    def _fit(self, client: int, *arguments: Any) -> None:
        if client == 0:
            raise MemoryError("no memory left")
        super()._fit(client, *arguments)


def test_a_training_that_failed_is_in_the_row(ray_session: None, monkeypatch: pytest.MonkeyPatch) -> None:
    # A budget for all, so that each round selects everyone.
    monkeypatch.setattr(serial_executor, "ClientWorker", OneFails)
    algo = config("fedavg", budget_share=1.0, on_client_failure="drop").build_algo()
    algo.train()
    (callback,) = (c for c in algo.callbacks if isinstance(c, RowCallback))
    row = callback._row(algo, 0.0)
    assert (row["failed"], row["trained"], row["num_trained"]) == ((0,), (1, 2, 3, 4, 5, 6, 7), 7)
    assert row["energy_j"] == pytest.approx(sum(row["costs_j"]), rel=1e-9)
    algo.stop()


def rounds_and_model(algo: Bippo, rounds: int) -> tuple[list[RoundResult], bytes]:
    done = []
    for _ in range(rounds):
        algo.train()
        done.append(algo.parallel_env.last_round)
    return done, pickle.dumps((algo.bank.get_state(), algo.parallel_env.get_state()["weights"].numpy()))


@pytest.mark.parametrize("method", METHODS)
def test_a_seed_fixes_every_method_through_churn_and_a_restart(method: str, ray_session: None, tmp_path: Path) -> None:
    whole = config(method, churn=CHURN).build_algo()
    rounds, model = rounds_and_model(whole, 4)
    first, second = config(method, churn=CHURN).build_algo(), config(method, churn=CHURN).build_algo()
    before, _ = rounds_and_model(first, 2)
    second.restore_from_path(first.save_to_path(str(tmp_path)))
    after, model_again = rounds_and_model(second, 2)
    assert before + after == rounds
    assert model_again == model
    assert all(done.energy_j <= done.budget_j * (1 + 1e-9) for done in rounds)
    assert [len(done.clients) for done in rounds] == [7, 7, 8, 7]
    for algo in (whole, first, second):
        algo.stop()


def test_only_methods_that_rank_by_loss_have_it_computed() -> None:
    with_loss = {name for name in METHODS if config(name).env_config.get("with_loss")}
    assert with_loss == {"poc", "pocd", "oort", "fedcor"}


def test_a_setting_that_contradicts_a_method_is_refused() -> None:
    with pytest.raises(ValueError, match=r"^poc needs env\.with_loss=True, but it is set to False"):
        config("poc", {"env.with_loss": False})
    assert config("bippo", {"env.with_loss": True}).env_config["with_loss"]


def test_the_number_of_candidates_reaches_the_published_power_of_choice_only() -> None:
    candidates = {name: config(name, {"candidates": 4}).candidates for name in METHODS}
    assert {name: count for name, count in candidates.items() if count is not None} == {"pocd": 4}
    assert config("pocd").candidates == 6


def test_a_setting_of_a_method_that_is_not_in_the_study_is_refused() -> None:
    check_settings_are_taken(["poc", "pocd", "fedavg"], {"candidates": 8, "lr": 0.01, "env.lr": 0.1})
    with pytest.raises(ValueError, match=r"^candidates is .* changes nothing in bippo, poc, only in pocd$"):
        check_settings_are_taken(["bippo", "poc"], {"lr": 0.01, "candidates": 8})


def test_probing_is_charged_to_methods_that_ask_clients_for_something() -> None:
    charged = {name for name in METHODS if "probing_epochs" in config(name, {"env.probing_epochs": 0.1}).env_config}
    assert set(METHODS) - charged == {"fedavg", "oort", "cyclic", "fedcbs", "hics", "normfilter", "oracle"}


def test_samplers_are_compared_with_the_same_policies() -> None:
    """The paper's sampler figure: `--methods bippo ippo bippo-greedy`."""
    bippo, *others = (config(name).to_dict() for name in ("bippo", "ippo", "bippo-greedy"))
    for other in others:
        differing = {key for key, value in bippo.items() if value != other[key]}
        assert differing - {"callbacks", "callbacks_class"} == {"sampler"}
