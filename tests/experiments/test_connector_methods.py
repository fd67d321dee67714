"""Methods whose selection is a connector of its own, in the federation: the prior alone, Oort, the oracle."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from bippo_rllib import Bippo
from bippo_rllib.baselines.rule_connector import RuleConnector
from bippo_rllib.runners.episode_env_runner import EpisodeEnvRunner
from envs import parallel_env
from experiments.connector_methods import good_clients
from experiments.scenarios import DIGITS
from experiments.study.row_callback import TrialInfo
from experiments.study.trial_config import bippo_config

# Clients 0 and 1 hold all labels, the others three, two or one.
SMALL = {**DIGITS.federation, "num_clients": 8, "budget_share": 0.4, "local_epochs": 1}
ROUNDS = 4


def config(method: str, settings: dict[str, Any] | None = None, **federation: Any) -> Any:
    return bippo_config(TrialInfo("digits", method, 7), {**SMALL, **federation}, settings or {}, ROUNDS)


def trained(algo: Bippo) -> list[tuple[int, ...]]:
    """Who trained in each round; the algorithm is stopped."""
    rounds = []
    for _ in range(ROUNDS):
        algo.train()
        rounds.append(algo.parallel_env.last_round.trained)
    algo.stop()
    return rounds


def test_the_prior_alone_ignores_the_policies(ray_session: None) -> None:
    other = config("rep").build_algo()
    other.bank.flat.copy_(torch.randn_like(other.bank.flat))
    with_prior = trained(config("rep").build_algo())
    assert trained(other) == with_prior
    assert with_prior != trained(config("rep", {"prior_weight": -2.0}).build_algo())


@pytest.mark.parametrize(
    "method", ["oort", "oracle", "bippo-r", "cyclic", "fedcbs", "bandit", "greedyfed", "hics", "fedcor", "normfilter"]
)
def test_both_runners_select_the_same(method: str, ray_session: None) -> None:
    on_episodes = config(method).env_runners(env_runner_cls=EpisodeEnvRunner)
    assert trained(on_episodes.build_algo()) == trained(config(method).build_algo())


def test_oort_tries_everyone_first_and_is_not_told_losses_of_others(ray_session: None) -> None:
    algo = config("oort").build_algo()
    known: set[str] = set()
    for _ in range(ROUNDS):
        algo.train()
        connector = next(p for p in algo.env_runner.module_to_env.connectors if isinstance(p, RuleConnector))
        # Round 0, in which all train, is no trial; what a round showed is known in the next one.
        assert set(connector.get_state()["known"]) == known
        known |= {f"client_{client:03d}" for client in algo.parallel_env.last_round.trained}
    assert len(known) == 8
    algo.stop()


@pytest.mark.parametrize(
    ("settings", "federation", "candidates"),
    [
        ({}, {}, {0, 1}),
        ({}, {"noisy_clients": (0,)}, {1}),
        ({"oracle_clients": (3, 5)}, {}, {3, 5}),
        ({"oracle_clients": 4}, {}, {4}),
    ],
)
def test_the_oracle_draws_among_good_clients_or_those_that_were_named(settings, federation, candidates, ray_session):
    chosen = trained(config("oracle", settings, **federation).build_algo())
    assert set().union(*chosen) == candidates


def test_clean_labels_count_where_noise_is_none() -> None:
    assert good_clients(parallel_env(**SMALL, noisy_clients=(0,), label_noise=0.0)) == [0, 1]


@pytest.mark.parametrize("asked", [(0, 8), (-1,), (1.0,), "all", (True,)])
def test_clients_that_there_are_not_are_refused(asked: Any) -> None:
    with pytest.raises(ValueError, match=r"^oracle_clients is .*numbers of clients, from 0 to 7, such as"):
        config("oracle", {"oracle_clients": asked}).validate()


def test_no_good_client_is_an_error_that_says_what_to_do(ray_session: None) -> None:
    with pytest.raises(ValueError, match=r"no client holds every label and clean data; name some with --set oracle"):
        config("oracle", noisy_clients=(0, 1)).build_algo()
