"""Scenarios and methods: every name can be built, and the paper's numbers are the paper's."""

from __future__ import annotations

from typing import Any

import pytest

import envs
from experiments.methods import METHODS
from experiments.report.paper_table import paper_table
from experiments.results.naming import look_up
from experiments.scenarios import SCENARIOS, Scenario
from experiments.study.row_callback import TrialInfo
from experiments.study.trial_config import bippo_config


@pytest.mark.parametrize("scenario", SCENARIOS.values(), ids=SCENARIOS)
def test_every_scenario_is_a_valid_federation(scenario: Scenario) -> None:
    config = envs.FederationConfig(**scenario.federation_for(scenario.rounds), rounds=scenario.rounds)
    assert config.num_clients == {"churn": 22, "scalability": 48}.get(scenario.name, 20)
    assert 0 < scenario.target_accuracy < 1
    assert "\n" not in scenario.description
    assert scenario.pretrained_on is None or SCENARIOS[scenario.pretrained_on].federation["dataset"]


def test_the_default_scenario_needs_no_data_and_its_budget_is_a_tenth() -> None:
    env = envs.parallel_env(**SCENARIOS["digits"].federation)
    assert env.budget_j == pytest.approx(0.107 * env.costs_j.sum())
    # 8 cheap and 12 expensive devices, as in the paper.
    assert sorted(env.costs_j.round(9).tolist()) == [env.costs_j.min().round(9)] * 8 + [env.costs_j.max().round(9)] * 12


@pytest.mark.parametrize("name", ["digits", "fashion-mnist", "cifar10", "image-folder"])
def test_a_data_sets_defaults_are_its_scenarios_settings(name: str) -> None:
    given = envs.FederationConfig(**SCENARIOS[name].federation)
    default = envs.FederationConfig(dataset=given.dataset)
    for field in ("model_name", "local_batch_size", "learning_rate", "local_epochs", "train_sizes", "test_sizes"):
        assert getattr(default, field) == getattr(given, field), field


@pytest.mark.parametrize(("name", "model", "share"), [("fashion-mnist", "cnn", 0.107), ("cifar10", "resnet18", 0.10)])
def test_paper_scenarios_are_the_papers(name: str, model: str, share: float) -> None:
    config = envs.FederationConfig(**SCENARIOS[name].federation)
    assert (config.model, config.budget_share, config.partition) == (model, share, "paper")
    assert (config.batch_size, config.lr, config.local_epochs) == (32, 0.1, 5)
    assert SCENARIOS[name].rounds == 200


def test_the_papers_churn_accuracies_are_not_called_mean_accuracies() -> None:
    names = [record[""] for record in paper_table([], SCENARIOS["churn"], 200)]
    assert "post-target accuracy: paper" in names and "mean accuracy: paper" not in names
    names = [record[""] for record in paper_table([], SCENARIOS["scalability"], 300)]
    assert "mean accuracy: paper" in names


def test_paper_table_is_consistent_with_what_the_paper_concludes() -> None:
    # "BIPPO always performs best or second best" in mean accuracy and in rounds to target.
    for scenario in (SCENARIOS["fashion-mnist"], SCENARIOS["cifar10"]):
        accuracy = sorted((result.mean_accuracy for result in scenario.paper.values()), reverse=True)
        rounds = sorted(r.rounds_to_target for r in scenario.paper.values() if r.rounds_to_target is not None)
        assert scenario.paper["bippo"].mean_accuracy in accuracy[:2]
        assert scenario.paper["bippo"].rounds_to_target in rounds[:2]


@pytest.mark.parametrize("clean", ["digits", "fashion-mnist"])
def test_noise_is_all_that_differs_in_the_noisy_scenarios(clean: str) -> None:
    noisy, federation = SCENARIOS[f"{clean}-noisy"], dict(SCENARIOS[clean].federation)
    assert noisy.federation == {**federation, "noisy_clients": (1, 3, 6, 8, 12, 17), "label_noise": 1.0}
    assert (noisy.rounds, noisy.target_accuracy, noisy.paper) == (SCENARIOS[clean].rounds, 0.80, {})


@pytest.mark.parametrize(
    ("name", "partition"),
    [
        ("digits-dirichlet", {"partition": "dirichlet_over_labels", "alpha": 0.3}),
        ("fashion-mnist-dirichlet", {"partition": "dirichlet_over_labels", "alpha": 0.3}),
        ("fashion-mnist-shards", {"partition": "shards", "shards_per_client": 2}),
    ],
)
def test_the_partition_is_all_that_differs_in_the_fields_usual_ones(name: str, partition: dict[str, Any]) -> None:
    clean, scenario = SCENARIOS[name.rpartition("-")[0]], SCENARIOS[name]
    assert dict(scenario.federation) == {**clean.federation, **partition}
    assert (scenario.rounds, scenario.target_accuracy) == (clean.rounds, clean.target_accuracy)
    assert scenario.paper == {} and scenario.paper_section is None


def test_scenarios_cannot_be_changed_by_accident() -> None:
    with pytest.raises(TypeError):
        SCENARIOS["digits"].federation["num_clients"] = 3  # type: ignore[index]


@pytest.mark.parametrize(
    ("method", "sampler"),
    [
        ("bippo", "epsilon_greedy"),
        ("ippo", "stochastic"),
        ("ppo", "stochastic"),
        ("fppo", "greedy"),
        ("fedavg", "random"),
        ("bippo-r", "odds"),
        ("ippo-odds", "odds"),
        ("bippo-greedy", "greedy"),
        ("rep", "odds"),
        ("oort", "greedy"),
        ("cyclic", "greedy"),
        ("fedcbs", "odds"),
        ("bandit", "odds"),
        ("greedyfed", "greedy"),
        ("hics", "greedy"),
        ("fedcor", "greedy"),
        ("normfilter", "greedy"),
        ("oracle", "random"),
    ],
)
def test_methods_complete_the_config(method: str, sampler: str) -> None:
    config = bippo_config(
        TrialInfo("digits", method, 28), {"dataset": "digits"}, {"lr": 0.01, "env.reward_base": 2.0}, 9
    )
    config.validate()
    assert (config.sampler, config.seed, config.lr) == (sampler, 28, 0.01)
    assert (config.policies_to_train == []) == (not METHODS[method].learns)


def test_look_up_suggests_what_was_meant() -> None:
    with pytest.raises(ValueError, match=r"unknown method 'bipo': did you mean bippo or .* known are bippo, ippo, "):
        look_up("method", "bipo", METHODS)
