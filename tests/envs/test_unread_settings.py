"""Every setting of a federation changes something, or is refused with the reason why it would not."""

from __future__ import annotations

import dataclasses

import pytest
import torch

import envs
from envs.config import FederationConfig, only_read, settings_by_group, unread
from envs.rules.churn import ChurnEvent
from envs.rules.device_change import DeviceChange
from envs.settings.setting import settings_of
from envs.training.actor_plan import Resources, actor_plan

TINY = {
    **{"num_clients": 5, "train_samples": 20, "test_samples": 10, "rounds": 3, "budget_share": 0.9},
    **{"local_epochs": 1, "on_overrun": "drop", "executor": "serial"},
}


def load(data_dir):
    digits = envs.load_dataset("digits")
    return dataclasses.replace(digits, train_labels=digits.train_labels.flip(0)) if data_dir else digits


def build(input_shape, num_classes):
    return torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(64, num_classes))


def median(weights, clients, num_samples, state):
    return clients.median(dim=0).values


OWN = {"dataset": "test_unread_settings:load", "model": "digits_cnn"}
RAY = {"executor": "ray"}
#: Setting -> a value other than that of ``TINY``, and what has to be given with it.
CHANGES = {
    "dataset": ("test_unread_settings:load", {"data_dir": "/nowhere", "model": "digits_cnn"}),
    "data_dir": ("/nowhere", OWN),
    "model": ("test_unread_settings:build", {}),
    "num_clients": (6, {}),
    "partition": ("iid", {}),
    "alpha": (5.0, {"partition": "dirichlet_over_labels"}),
    "shards_per_client": (4, {"partition": "shards"}),
    "late_labels": ((3,), {"cpu_freq_hz": (7e8,) * 5}),
    "train_samples": (30, {}),
    "test_samples": (5, {}),
    "noisy_clients": ((1,), {}),
    "label_noise": (0.5, {"noisy_clients": (1,)}),
    "rounds": (2, {}),
    "local_epochs": (2, {}),
    "batch_size": (7, {}),
    "lr": (0.02, {}),
    "proximal_mu": (1.0, {"batch_size": 5}),
    "aggregation": ("test_unread_settings:median", {}),
    "on_client_failure": ("drop", {"lr": 1e30}),
    "mixed_precision": (True, {}),
    "seed": (3, {}),
    "churn": ((ChurnEvent(1, 0, "leave"),), {}),
    "churn_leave_rate": (0.5, {}),
    "churn_return_rate": (1.0, {"churn_leave_rate": 0.5}),
    "cpu_freq_hz": ((1e9,) * 5, {}),
    "device_changes": ((DeviceChange(2, 0, 3e9),), {}),
    "budget_share": (0.5, {}),
    "budget_j": (1.0, {}),
    "on_overrun": ("raise", {}),
    "probing_epochs": (0.1, {}),
    "joules_per_mac": (1e-12, {"selector_macs": (1e4, 1e4)}),
    "selector_macs": ((1e4, 1e4), {"joules_per_mac": 1e-12}),
    "reward": ("leave_one_out", {}),
    "reward_base": (2.0, {}),
    "reward_target": (0.5, {"reward": "accuracy_target"}),
    "credit_clients": (1, {"reward": "leave_one_out"}),
    "shapley_pairs": (3, {"reward": "shapley", "budget_share": 1.0}),
    "with_loss": (True, {}),
    "with_label_counts": (True, {}),
    "update_profile_size": (4, {}),
    "with_output_bias": (True, {}),
    "with_update_norm": (True, {}),
    "executor": ("ray", {}),
    "num_actors": (3, RAY),
    "cpus_per_actor": (2.0, RAY),
    "gpus_per_actor": (0.5, RAY),
    "device": ("meta", {}),
}
#: What keeps a setting from being read, where the defaults do not.
OTHERS = {
    "late_labels": {"partition": "iid"},
    "budget_share": {"budget_j": 1.0},
    "train_samples": {"partition": "natural"},
    "test_samples": {"partition": "natural"},
    "reward_base": {"reward": "mine:reward"},
}
#: Tested where they act: threads and compiling change last bits or nothing, meters and traces need what they read.
ELSEWHERE = {"torch_threads", "compile", "energy_meter", "churn_trace"}


def behaviour(fields):
    """What can be seen of a federation: its actors, or all that a run returns."""
    config = FederationConfig(**fields)
    if config.executor == "ray":
        return repr(actor_plan(config.execution, Resources(16.0, 2.0)))
    seen = []
    try:
        env = envs.parallel_env(**fields)
        seen += [env.reset(), env.budget_j, env.num_samples]
        while env.agents:
            seen += [env.step(dict.fromkeys(env.agents, 1)), dataclasses.replace(env.last_round, fl_seconds=0.0)]
    except (ValueError, NotImplementedError) as error:
        seen.append(error)
    return repr(seen)


@pytest.mark.parametrize("name", CHANGES)
def test_a_setting_changes_what_can_be_seen(name):
    value, with_it = CHANGES[name]
    base = {key: value for key, value in (TINY | with_it).items() if key != name or name in TINY}
    given = base | {name: value}
    if name == "budget_j":
        given.pop("budget_share")
    assert behaviour(given) != behaviour(only_read(base))


def test_every_setting_is_walked_through():
    grouped = [name for settings in settings_by_group().values() for name in settings]
    assert sorted(grouped) == sorted(settings_of(FederationConfig)) == sorted({*CHANGES, *ELSEWHERE})


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("train_samples", "natural"),
        ("test_samples", "natural"),
        ("reward_base", "accuracy_change"),
        ("alpha", "'dirichlet_over_clients' or 'dirichlet_over_labels'"),
        ("shards_per_client", "'shards'"),
        ("late_labels", "'paper'"),
        ("label_noise", "noisy_clients"),
        ("budget_share", "budget_j"),
        ("joules_per_mac", "selector_macs"),
        ("selector_macs", "joules_per_mac"),
        ("reward_target", "accuracy_target"),
        ("credit_clients", "shapley"),
        ("shapley_pairs", "shapley"),
    ],
)
def test_a_setting_that_nothing_reads_is_refused_with_the_reason_and_its_default_is_not(name, reason):
    others = OTHERS.get(name, {})
    assert settings_of(FederationConfig)[name].unread is not None
    with pytest.raises(ValueError, match=rf"^{name} is .*; (?!is ).*{reason}"):
        FederationConfig(**others, **{name: CHANGES[name][0]})
    assert only_read({**others, name: CHANGES[name][0]}) == others
    FederationConfig(**others, **{name: getattr(FederationConfig, name)})


def test_no_reason_is_left_out_above():
    """Each setting that may be without effect is one of those refused above."""
    conditional = {name for name, each in settings_of(FederationConfig).items() if each.unread is not None}
    tested = test_a_setting_that_nothing_reads_is_refused_with_the_reason_and_its_default_is_not.pytestmark
    assert conditional == {name for name, _ in tested[0].args[1]}


@pytest.mark.parametrize("value", [5.0, -1, "x", None, [], {}, ((1,),)], ids=repr)
def test_values_that_no_check_has_seen_are_no_reason_to_fail(value):
    names = [name for group in settings_by_group().values() for name in group]
    for name in names:
        for other in names:
            assert unread({name: value, other: value}).keys() <= {name, other}
