"""The configuration refuses what makes no sense, in one line that says what to do."""

from __future__ import annotations

import dataclasses
import math
import re
from pathlib import Path

import pytest

from envs.config import FederationConfig, config_from
from envs.rules.churn import ChurnEvent
from envs.rules.device_change import DeviceChange
from envs.settings.energy import paper_cpu_freq_hz


def test_none_stands_for_the_data_sets_own():
    digits, fashion, cifar = (FederationConfig(dataset=name) for name in ("digits", "fashion_mnist", "cifar10"))
    assert (digits.model_name, fashion.model_name, cifar.model_name) == ("digits_cnn", "cnn", "resnet18")
    assert (digits.train_sizes, fashion.train_sizes, cifar.train_sizes) == ((50,) * 20, (1200,) * 20, (1000,) * 20)
    assert (digits.test_sizes, fashion.test_sizes, cifar.test_sizes) == ((20,) * 20, (200,) * 20, (200,) * 20)
    assert (fashion.local_batch_size, fashion.learning_rate, fashion.local_epochs) == (32, 0.1, 5)
    assert FederationConfig(batch_size=7, lr=0.2).local_batch_size == 7
    shards, dirichlet = (FederationConfig(partition=name) for name in ("shards", "dirichlet_over_labels"))
    assert (shards.client_shards, dirichlet.dirichlet_alpha) == (2, 0.5)


def test_per_client_fields_follow_the_number_of_clients():
    config = dataclasses.replace(FederationConfig(), num_clients=3)
    assert config.train_sizes == (50, 50, 50) and len(config.start_freq_hz) == 3
    lists = FederationConfig(num_clients=2, train_samples=[10, 20], cpu_freq_hz=[1e9, 2e9])
    assert lists.train_sizes == (10, 20) and lists.start_freq_hz == (1e9, 2e9)
    assert hash(lists) == hash(dataclasses.replace(lists))


def test_two_of_five_in_each_quarter_are_cheap():
    assert [client for client, freq in enumerate(paper_cpu_freq_hz(20)) if freq == 700e6] == [
        0,
        1,
        5,
        6,
        10,
        11,
        15,
        16,
    ]
    assert sorted(paper_cpu_freq_hz(20)) == [700e6] * 8 + [1500e6] * 12
    assert len(paper_cpu_freq_hz(7)) == 7


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"dataset": "mnist"}, "dataset is 'mnist'; choose one of digits, fashion_mnist"),
        ({"model": "vgg"}, "model is 'vgg'; choose one of"),
        ({"partition": "dirichlet"}, "choose one of paper, dirichlet_over_clients, dirichlet_over_labels, shards, iid"),
        ({"reward": "loss"}, "reward is 'loss'; choose one of accuracy_change, accuracy_target"),
        ({"on_overrun": "warn"}, "on_overrun is 'warn'; choose one of raise, drop"),
        ({"num_clients": 0}, "num_clients is 0; it must be a whole number of at least 1"),
        ({"num_clients": True}, "num_clients is True"),
        ({"rounds": 2.5}, "rounds is 2.5"),
        ({"seed": -1}, "seed is -1; it must be a whole number of at least 0"),
        ({"lr": math.nan}, "lr is nan; it must be a finite number above 0"),
        ({"lr": 0.0}, "lr is 0.0"),
        ({"alpha": -1.0}, "alpha is -1.0"),
        ({"alpha": 2e307}, "alpha is 2e\\+307; it must be at most 1e9"),
        ({"budget_share": 0.0}, "budget_share is 0.0; it must be a finite number above 0"),
        ({"budget_j": -1.0}, r"budget_j is -1.0; it must be at least 0 \(math.inf for no limit\)"),
        ({"budget_j": math.nan}, "budget_j is nan"),
        ({"budget_j": "1"}, "budget_j is '1'; it must be a number"),
        ({"reward_target": 80}, r"reward_target is 80; it must lie in \[0, 1\]"),
        ({"train_samples": (50, 50)}, "train_samples has 2 entries; there are num_clients=20"),
        ({"test_samples": 0}, "test_samples is 0"),
        ({"cpu_freq_hz": 1e9}, "cpu_freq_hz is 1000000000.0; it must be a tuple"),
        ({"cpu_freq_hz": (1e9,)}, "cpu_freq_hz has 1 entries; there are num_clients=20"),
        ({"num_clients": 1, "cpu_freq_hz": (0,)}, "cpu_freq_hz is 0; it must be a finite number above 0"),
        ({"device_changes": (DeviceChange(201, 0, 1e9),)}, "rounds go from 1 to 200, clients from 0 to 19"),
        ({"device_changes": (DeviceChange(1, 20, 1e9),)}, "clients from 0 to 19"),
        ({"device_changes": (DeviceChange("1", 0, 1e9),)}, "round of DeviceChange.* is '1'; it must be a whole number"),
        ({"device_changes": (DeviceChange(1, -1, 1e9),)}, "client of DeviceChange.* is -1; it must be a whole number"),
        ({"device_changes": (DeviceChange(1, 0, math.inf),)}, "cpu_freq_hz of a DeviceChange is inf"),
        ({"churn": ChurnEvent(1, 0, "leave")}, r"churn is ChurnEvent\(.*; it must be a tuple of ChurnEvent"),
        ({"churn": ((1, 0, "leave"),)}, r"it must hold ChurnEvent\(round, client, 'join' or 'leave'\)"),
        ({"churn": (ChurnEvent(1, 0, "left"),)}, "kind of ChurnEvent.* is 'left'; choose one of join, leave"),
        ({"churn": (ChurnEvent(0, 0, "join"),)}, "round of ChurnEvent.* is 0; it must be a whole number of at least 1"),
        ({"churn": (ChurnEvent(1, -1, "join"),)}, "client of ChurnEvent.* is -1"),
        ({"churn": (ChurnEvent(1, 1.0, "join"),)}, "client of ChurnEvent.* is 1.0"),
        (
            {"churn": (ChurnEvent(200, 0, "join"),)},
            "effect after its round, so rounds go from 1 to 199, clients from 0",
        ),
        ({"churn": (ChurnEvent(1, 20, "join"),)}, "clients from 0 to 19"),
        (
            {"churn": (ChurnEvent(5, 3, "leave"), ChurnEvent(9, 3, "leave"))},
            r"ChurnEvent\(round=9, .*: the client is absent since round 5; add its join between the two, or drop",
        ),
        (
            {"churn": [ChurnEvent(9, 3, "join"), ChurnEvent(5, 3, "join")]},
            r"ChurnEvent\(round=9, .*: the client is live since round 5; add its leave between the two, or drop",
        ),
        (
            {"churn": (ChurnEvent(5, 3, "leave"), ChurnEvent(5, 3, "join"))},
            "client 3 has two events in round 5; a client joins or leaves once a round",
        ),
        ({"num_clients": 1, "churn": (ChurnEvent(1, 0, "join"),)}, "no client is live at the start; let at least one"),
        ({"churn_leave_rate": 1.1}, r"churn_leave_rate is 1.1; it must lie in \[0, 1\]"),
        ({"churn_leave_rate": math.nan}, "churn_leave_rate is nan"),
        (
            {"churn_return_rate": 0.3},
            "churn_return_rate is 0.3 and churn_leave_rate 0, so that nobody leaves and nobody",
        ),
        ({"churn_return_rate": "0.1"}, "churn_return_rate is '0.1'; it must be a number"),
        ({"churn_leave_rate": (0.1, 0.2)}, "churn_leave_rate has 2 entries; there are num_clients=20"),
        (
            {"churn": (ChurnEvent(5, 3, "leave"),), "churn_return_rate": 0.1},
            "churn and churn_return_rate are both given; choose one way",
        ),
        (
            {"churn_trace": "none.csv"},
            f"churn_trace {re.escape(str(Path('none.csv').resolve()))} cannot be read: No such file or directory",
        ),
        ({"churn_trace": "none.csv", "churn_leave_rate": 0.1}, "churn_trace and churn_leave_rate are both given"),
        ({"device_changes": ((1, 0, 1e9),)}, r"it must hold DeviceChange\(round, client, cpu_freq_hz\)"),
        (
            {"partition": "dirichlet_over_clients", "num_clients": 1, "train_samples": (9,)},
            "train_samples must be one number, the mean, with partition='dirichlet_over_clients'",
        ),
        (
            {"partition": "shards", "num_clients": 1, "train_samples": (9,)},
            "train_samples must be one number with partition='shards'",
        ),
        (
            {"alpha": 0.1},
            "alpha is given with partition='paper'; it goes with 'dirichlet_over_clients' and",
        ),
        ({"alpha": 0.1, "partition": "iid"}, "alpha is given with partition='iid'"),
        ({"shards_per_client": 2}, "shards_per_client is given with partition='paper'; it goes with 'shards' only"),
        ({"shards_per_client": 0, "partition": "shards"}, "shards_per_client is 0; it must be a whole number of at le"),
        (
            {"shards_per_client": 51, "partition": "shards"},
            "shards_per_client is 51 and a client has 50 training samples; lower shards_per_client or raise",
        ),
        ({"late_labels": (1,), "partition": "shards", "num_clients": 2}, "it goes with 'paper' only"),
    ],
)
def test_bad_fields_are_refused(fields, message):
    with pytest.raises(ValueError, match=message) as error:
        FederationConfig(**fields)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("num_client", r"did you mean num_clients or "),
        ("dirichlet_alpha", r"did you mean alpha\?"),
        ("gamma", "known are dataset, "),
    ],
)
def test_unknown_setting_suggests_the_one_meant(name, hint):
    with pytest.raises(ValueError, match=f"unknown setting '{name}'; {hint}"):
        config_from(**{name: 3})


def test_rates_per_client_may_be_a_list():
    config = FederationConfig(num_clients=2, churn_leave_rate=[0.1, 0], churn_return_rate=1)
    assert config.churn_leave_rate == (0.1, 0) and hash(config) == hash(dataclasses.replace(config))
    live_and_gone = config.churn_schedule().changes((0,), 0, 0, 1)
    assert live_and_gone.joined == (1,)


@pytest.mark.parametrize("budget_j", [0, 0.0, 5, math.inf])
def test_budgets_from_none_to_no_limit_are_accepted(budget_j):
    assert FederationConfig(budget_j=budget_j).budget_j == budget_j


ODD_VALUES = (3, -1, 2.5, "x", "", (), [], (1,), ["x"], {}, {"a": 1}, None, True, object(), b"x")


@pytest.mark.parametrize("field", [field.name for field in dataclasses.fields(FederationConfig)])
def test_a_value_of_any_kind_is_taken_or_refused_by_name(field):
    refused = 0
    for value in ODD_VALUES:
        try:
            FederationConfig(**{field: value})
        except ValueError as error:
            assert field in str(error) and "\n" not in str(error)
            refused += 1
    assert refused
