"""The configuration refuses what makes no sense, in one line that says what to do."""

from __future__ import annotations

import dataclasses
import math
from functools import partial
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
    cheap = [client for client, freq in enumerate(paper_cpu_freq_hz(20)) if freq == 700e6]
    assert cheap == [0, 1, 5, 6, 10, 11, 15, 16]
    assert sorted(paper_cpu_freq_hz(20)) == [700e6] * 8 + [1500e6] * 12 and len(paper_cpu_freq_hz(7)) == 7


LEAVE, JOIN = (partial(ChurnEvent, kind=kind) for kind in ("leave", "join"))


@pytest.mark.parametrize(
    ("fields", "named"),
    [
        ({"dataset": "mnist"}, ["'mnist'", "digits, fashion_mnist"]),
        ({"model": "vgg"}, ["'vgg'"]),
        ({"partition": "dirichlet"}, ["dirichlet_over_clients, dirichlet_over_labels, shards, iid, natural"]),
        ({"reward": "loss"}, ["'loss'", "accuracy_change, accuracy_target"]),
        ({"on_overrun": "warn"}, ["'warn'", "raise, drop"]),
        ({"num_clients": 0}, ["at least 1"]),
        ({"num_clients": True}, ["True"]),
        ({"rounds": 2.5}, ["2.5"]),
        *(({name: value}, ["above 0"]) for name, value in (("lr", math.nan), ("lr", 0.0), ("budget_share", 0.0))),
        ({"alpha": 2e307}, ["1e9"]),
        ({"budget_share": 10.7}, ["share", "10.7 %", "0.107"]),
        ({"budget_j": -1.0}, ["at least 0", "inf"]),
        ({"budget_j": math.nan}, ["nan"]),
        ({"reward_target": 80}, ["80", "[0, 1]"]),
        ({"train_samples": (50, 50)}, ["2 entries", "num_clients=20"]),
        ({"test_samples": 0}, ["at least 1"]),
        ({"cpu_freq_hz": 1e9}, ["each client"]),
        ({"num_clients": 1, "cpu_freq_hz": (0,)}, ["cpu_freq_hz", "above 0"]),
        ({"device_changes": (DeviceChange(201, 0, 1e9),)}, ["DeviceChange", "1 to 200", "0 to 19"]),
        ({"device_changes": (DeviceChange(1, 20, 1e9),)}, ["DeviceChange", "0 to 19"]),
        ({"device_changes": (DeviceChange("1", 0, 1e9),)}, ["round", "'1'"]),
        ({"device_changes": (DeviceChange(1, -1, 1e9),)}, ["client", "-1"]),
        ({"device_changes": (DeviceChange(1, 0, math.inf),)}, ["cpu_freq_hz", "inf"]),
        ({"device_changes": ((1, 0, 1e9),)}, ["DeviceChange(round, client, cpu_freq_hz)"]),
        ({"churn": ((1, 0, "leave"),)}, ["ChurnEvent(round, client, 'join' or 'leave')"]),
        ({"churn": (ChurnEvent(1, 0, "left"),)}, ["kind", "'left'", "join, leave"]),
        ({"churn": (JOIN(0, 0),)}, ["round", "at least 1"]),
        ({"churn": (JOIN(1, 1.0),)}, ["client", "1.0"]),
        ({"churn": (JOIN(200, 0),)}, ["1 to 199"]),
        ({"churn": (JOIN(1, 20),)}, ["0 to 19"]),
        ({"churn": (LEAVE(5, 3), LEAVE(9, 3))}, ["round=9", "absent since round 5", "join"]),
        ({"churn": [JOIN(9, 3), JOIN(5, 3)]}, ["round=9", "live since round 5", "leave"]),
        ({"churn": (LEAVE(5, 3), JOIN(5, 3))}, ["client 3", "two events", "round 5"]),
        ({"num_clients": 1, "churn": (JOIN(1, 0),)}, ["live at the start"]),
        ({"churn_leave_rate": 1.1}, ["1.1", "[0, 1]"]),
        ({"churn_return_rate": 0.3}, ["0.3", "churn_leave_rate"]),
        ({"churn_leave_rate": (0.1, 0.2)}, ["2 entries", "num_clients=20"]),
        ({"churn": (LEAVE(5, 3),), "churn_return_rate": 0.1}, ["churn_return_rate"]),
        ({"churn_trace": "none.csv"}, [str(Path("none.csv").resolve())]),
        ({"churn_trace": "none.csv", "churn_leave_rate": 0.1}, ["churn_leave_rate"]),
        ({"partition": "dirichlet_over_clients", "num_clients": 1, "train_samples": (9,)}, ["train_samples", "mean"]),
        ({"partition": "shards", "num_clients": 1, "train_samples": (9,)}, ["train_samples", "one number"]),
        ({"shards_per_client": 51, "partition": "shards"}, ["51", "50", "train_samples"]),
    ],
)
def test_bad_values_are_refused_in_one_line(fields, named):
    with pytest.raises(ValueError) as error:
        FederationConfig(**fields)
    assert all(word in str(error.value) for word in named) and "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("name", "hint"),
    [("num_client", "did you mean num_clients"), ("dirichlet_alpha", "did you mean alpha"), ("gamma", "known are")],
)
def test_an_unknown_setting_suggests_the_one_meant(name, hint):
    with pytest.raises(ValueError, match=f"'{name}'; {hint}"):
        config_from(**{name: 3})


def test_rates_per_client_may_be_a_list():
    config = FederationConfig(num_clients=2, churn_leave_rate=[0.1, 0], churn_return_rate=1, budget_j=0)
    assert config.churn_leave_rate == (0.1, 0) and hash(config) == hash(dataclasses.replace(config))
    assert config.churn_schedule().changes((0,), 0, 0, 1).joined == (1,)


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
