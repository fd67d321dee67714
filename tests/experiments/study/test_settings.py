"""`--set` and `--search`: what is parsed, and that nothing but literals and Tune's functions is ever evaluated."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from ray import tune

from bippo_rllib import BippoConfig
from bippo_rllib.config_checks import ONLY_OF_SAMPLER
from bippo_rllib.setting_error import SettingError
from envs.checks import SettingError as EnvironmentSettingError
from experiments.methods import METHODS
from experiments.report.metrics import short_setting
from experiments.results.setting_text import describe, described
from experiments.scenarios import SCENARIOS
from experiments.study.checks import check_study
from experiments.study.row_callback import TrialInfo
from experiments.study.search import parse_search, sampling_domain
from experiments.study.settings import apply_settings, as_typed, parse_settings, split_settings
from experiments.study.study import Study
from experiments.study.trial_config import bippo_config


def test_values_are_literals_or_text() -> None:
    assert parse_settings(["lr=5e-4", "num_epochs=4", "env.reward=accuracy_target", "env.with_loss=True"]) == {
        "lr": 5e-4,
        "num_epochs": 4,
        "env.reward": "accuracy_target",
        "env.with_loss": True,
    }


def test_federation_settings_are_told_apart_by_their_prefix() -> None:
    assert split_settings({"lr": 1, "env.lr": 2}) == ({"lr": 1}, {"lr": 2})


@pytest.mark.parametrize(
    ("items", "message"),
    [
        (["lr"], "--set 'lr' is not key=value"),
        (["lr="], "--set 'lr=' is not key=value"),
        (["lr=1", "lr=2"], "--set names lr twice"),
        (["seed=3"], "--set seed: use --seeds"),
        (["evaluation_interval=3"], r"--set evaluation_interval: use Bippo.from_checkpoint\(...\).evaluate\(\)"),
        (["env.rounds=3"], "--set env.rounds: use --rounds"),
    ],
)
def test_bad_settings_are_refused(items: list[str], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        parse_settings(items)


def test_search_expressions_become_tunes_domains() -> None:
    domain = sampling_domain("lr", "loguniform(1e-4, 1e-2)")
    values = domain.sample(size=200, random_state=np.random.RandomState(0))
    assert 1e-4 <= min(values) < 3e-4 and 3e-3 < max(values) <= 1e-2
    assert sampling_domain("num_epochs", "choice([2, 4])").categories == [2, 4]
    assert round(sampling_domain("lr", "quniform(0.2, 0.8, q=0.2)").sample(), 9) in (0.2, 0.4, 0.6, 0.8)
    assert sampling_domain("gamma", "grid_search([0.5, 0.9])") == tune.grid_search([0.5, 0.9])


@pytest.mark.parametrize(
    ("item", "message"),
    [
        ("lr=0.1", "expected one of Tune's functions"),
        ("lr=uniform(", "expected one of Tune's functions"),
        ("lr=logunform(1,2)", "did you mean loguniform"),
        ("lr=__import__('os').system('true')", "expected one of Tune's functions"),
        ("lr=eval('1')", "unknown function 'eval'"),
        ("lr=uniform(0, open('x'))", "must be plain numbers, texts or lists"),
        ("lr=uniform(*[0, 1])", "must be plain numbers, texts or lists"),
    ],
)
def test_bad_expressions_are_refused_without_being_run(item: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        parse_search([item])


@pytest.mark.parametrize("expression", ["choice({'a','b'})", "choice({1: 2})", "grid_search({1, 2})"])
def test_what_has_no_order_is_no_search_space(expression: str) -> None:
    with pytest.raises(ValueError, match="arguments must be plain numbers, texts or lists"):
        sampling_domain("lr", expression)


@pytest.mark.parametrize("expression", ["uniform(1)", "loguniform(0, 1)", "choice([])", "uniform(0, 1, 2, 3)"])
def test_arguments_that_tune_refuses_are_one_line(expression: str) -> None:
    with pytest.raises(ValueError, match="--search lr=") as error:
        sampling_domain("lr", expression)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("method", ["bippo", "bippo-r", "fedavg", "ppo"])
def test_a_setting_of_a_study_is_taken_by_the_methods_whose_sampler_reads_it(method: str) -> None:
    given = {"lr": 0.01, "epsilon_decay": 0.95, "outside_odds": 2.0}
    config = bippo_config(TrialInfo("digits", method, 7), {}, given, 3)
    config.validate()
    assert (config.lr, config.epsilon_decay) == (0.01, 0.95 if method == "bippo" else 0.9)
    assert config.outside_odds == (2.0 if method == "bippo-r" else 0.0)


@pytest.mark.parametrize("name", [*ONLY_OF_SAMPLER, "lr", "gamma", "num_epochs", "policy_batch_size"])
def test_a_setting_that_no_method_of_the_study_reads_is_refused_and_the_methods_that_do_are_named(name, tmp_path):
    sampler = {method: METHODS[method].make_config().sampler for method in METHODS}
    of_sampler = {method for method in METHODS if sampler[method] == ONLY_OF_SAMPLER.get(name)}
    readers = of_sampler if name in ONLY_OF_SAMPLER else {method for method in METHODS if METHODS[method].learns}

    def check(*methods):
        check_study(Study(SCENARIOS["digits"], methods, (7,), 2, tmp_path, settings={name: 1}))

    for method in METHODS.keys() - readers:
        with pytest.raises(ValueError, match=rf"^{name} is 1; it changes nothing in {method}, only in") as error:
            check(method)
        assert set(str(error.value).partition("only in ")[2].split(", ")) == readers
    check("fedavg", "bippo-r" if name == "outside_odds" else "bippo")


def test_settings_reach_the_config_and_unknown_ones_do_not() -> None:
    apply_settings(config := BippoConfig(), {"epsilon_decay": 0.95})
    assert config.epsilon_decay == 0.95
    with pytest.raises(ValueError, match="unknown setting 'epsilon_deca': did you mean epsilon_decay"):
        apply_settings(BippoConfig(), {"epsilon_deca": 0.95})
    with pytest.raises(ValueError, match="unknown setting 'num_env_runner'") as error:
        apply_settings(BippoConfig(), {"num_env_runner": 1})
    assert "num_env_runners" not in str(error.value)  # BIPPO would refuse it
    with pytest.raises(ValueError, match=r"setting lr='fast': expected a number, such as lr=0\.001"):
        apply_settings(BippoConfig(), {"lr": "fast"})


def test_description_is_sorted_keeps_every_bit_and_reads_back() -> None:
    drawn = {"lr": 0.00042123456789, "epsilon_decay": 0.9, "env.noisy_clients": [1, 2], "env.reward": "accuracy_target"}
    text = describe(drawn)
    assert text == "env.noisy_clients=[1, 2] env.reward=accuracy_target epsilon_decay=0.9 lr=0.00042123456789"
    assert described(text) == drawn and described("") == {}
    assert short_setting(text).endswith("[1, 2] env.reward=accuracy_target epsilon_decay=0.9 lr=0.0004212")
    assert (
        short_setting("lr=1.23456789e-05 betas=(0.123456, 8) seed=20261129")
        == "lr=1.235e-05 betas=(0.1235, 8) seed=20261129"
    )


@pytest.mark.parametrize("text", ["{[1]: 2}", "+-inf", "{{}}"])
def test_what_python_cannot_read_is_text(text: str) -> None:
    assert parse_settings([f"env.reward={text}"]) == {"env.reward": text}


def test_an_error_of_a_federation_names_the_flag_or_key_that_sets_it() -> None:
    for field, named in (("num_actors", "--num-actors"), ("lr", "env.lr"), ("dataset", "--scenario")):
        error = as_typed(EnvironmentSettingError(field, 0, "it must be above 0"))
        assert str(error) == f"{named} is 0; it must be above 0"
    assert str(as_typed(EnvironmentSettingError("dataset", "a:b", "x"))).startswith("env.dataset is 'a:b'")
    for other in (SettingError("lr", 0, "x"), EnvironmentSettingError("--methods", 0, "x"), ValueError("lr is 0")):
        assert as_typed(other) is other


@pytest.mark.parametrize("kind", [SettingError, EnvironmentSettingError])
def test_errors_of_both_packages_have_the_same_fields_text_and_pickles(kind: type) -> None:
    error = kind("lr", (1, "x"), "it must be a number")
    arrived = pickle.loads(pickle.dumps(error))
    assert (arrived.field, arrived.value, arrived.expected) == ("lr", (1, "x"), "it must be a number")
    assert str(arrived) == "lr is (1, 'x'); it must be a number" and isinstance(error, ValueError)
