"""Leave-one-out rewards: recomputed independently, equal in every executor, and paid for within the budget."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from actor_hosts import OneFails, hosted_executor
from hypothesis import given, settings
from hypothesis import strategies as st
from plain_federation import PlainFederation
from torch import nn

import envs
from envs.config import FederationConfig, only_read
from envs.rng import RoundKey
from envs.rules.budget import BUDGET_TOLERANCE
from envs.rules.churn import ChurnEvent
from envs.rules.device_change import DeviceChange
from envs.rules.leave_one_out import drawn_clients
from envs.training import models, serial_executor
from envs.training.models import build_model

TINY = {
    "num_clients": 4,
    "train_samples": (8, 12, 20, 16),
    "test_samples": 20,
    "local_epochs": 2,
    "batch_size": 8,
    "rounds": 6,
    "budget_share": 1.0,
    "reward": "leave_one_out",
    "executor": "serial",
}
# 8 to 20 samples of 64 values of 32 bits: an epoch of 20 takes 8.028160e-5 J at 700 MHz (see test_probing).
SAMPLE_EPOCH_J = 8.028160e-5 / 20


def loo_env(make_executor=None, **fields):
    return envs.FederatedRounds(FederationConfig(**only_read(TINY | fields)), make_executor)


def ids(agents):
    return {int(agent[7:10]): agent for agent in agents}


def step(env, clients):
    agents = ids(env.agents)
    return env.step({agents[client]: 1 for client in clients})


def batch_norm_net(input_shape, num_classes):
    return nn.Sequential(nn.Flatten(), nn.Linear(64, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Linear(16, num_classes))


def power(effect, base=64.0):
    return (1 if effect > 0 else -1) * (base ** abs(effect) - 1.0)


@pytest.mark.parametrize(
    ("fields", "builder"),
    [
        ({}, None),
        ({"credit_clients": 2, "probing_epochs": 0.01}, None),
        ({"churn": (ChurnEvent(1, 3, "join"), ChurnEvent(2, 0, "leave")), "reward_base": 3.0}, None),
        ({"noisy_clients": (1,), "label_noise": 0.0, "credit_clients": 3}, batch_norm_net),
    ],
)
def test_rewards_are_the_effects_that_plain_torch_finds(fields, builder, monkeypatch):
    if builder:
        monkeypatch.setitem(models._BUILDERS, "digits_cnn", builder)
    env = loo_env(**fields)
    env.reset(seed=5)
    plain = PlainFederation(env.config, 5)
    paid = []
    for number, clients in enumerate(((0, 1, 2), (1, 2), (2,), (1, 2)), start=1):
        state = env.get_state()
        start = build_model("digits_cnn", (1, 8, 8), 10)
        models.FlatWeights(start).set(state["weights"])
        agents = ids(env.agents)
        rewards = step(env, clients)[1]
        done = env.last_round
        trained = {client: plain.trained(start, client, number) for client in clients}
        judges = drawn_clients(state["live"], env.config.credit_clients, RoundKey(5, 0, number))
        complete = plain.accuracy(plain.average(start, trained), judges)
        for client in done.clients:
            reward = 0.0
            if client in clients:
                others = plain.average(start, {c: model for c, model in trained.items() if c != client})
                reward = power(complete - plain.accuracy(others, judges), env.config.reward_base)
            assert rewards[agents[client]] == pytest.approx(reward, rel=1e-9), (number, client)
        assert done.rewards == tuple(rewards[agents[client]] for client in done.clients)
        assert done.reward == pytest.approx(np.mean([rewards[agents[client]] for client in clients]))
        assert all(rewards[agent] == 0.0 for agent in rewards if ids([agent]).keys() <= set(done.joined))
        paid += [rewards[agents[client]] for client in clients]
    assert len(set(paid)) > 4 and min(paid) < 0 < max(paid)


def test_nobody_trains_and_nobody_is_paid():
    env = loo_env(probing_epochs=0.01)
    env.reset(seed=5)
    weights = env.get_state()["weights"]
    rewards = env.step({})[1]
    assert set(rewards.values()) == {0.0} and env.last_round.reward == 0.0 and set(env.last_round.rewards) == {0.0}
    assert env.last_round.energy_j == env.last_round.probing_j > 0.0
    assert torch.equal(weights, env.get_state()["weights"])


def test_a_client_that_fails_is_paid_nothing_and_the_others_as_without_it(monkeypatch):
    twin = loo_env(num_clients=6, train_samples=16, lr=0.05)
    monkeypatch.setattr(serial_executor, "ClientWorker", OneFails)
    env = loo_env(num_clients=6, train_samples=16, lr=0.05, on_client_failure="drop")
    for each in (env, twin):
        each.reset(seed=5)
        step(each, (0,))
    rewards, expected = step(env, (1, 2, 4))[1], step(twin, (1, 4))[1]  # client 2 fails in round 2
    assert env.last_round.failed == (2,) and rewards == expected and rewards["client_002"] == 0.0
    # Alone and NaN in round 3: nobody trained.
    assert set(step(env, (5,))[1].values()) == {0.0} and env.last_round.reward == 0.0
    with pytest.raises(ValueError, match="client 2 failed in round 2"):
        env = loo_env(num_clients=6, train_samples=16)
        env.reset(seed=5)
        step(env, (0,))
        step(env, (1, 2, 4))


def rollout(env):
    """Everything that is seen in an episode with random participation."""
    seen, rng = [env.reset(seed=3)], np.random.default_rng(0)
    while env.agents:
        seen.append(env.step({agent: int(rng.random() < 0.5) for agent in env.agents}))
        seen.append(env.last_round)
    seen.append(env.get_state())
    return plain(seen)


def plain(value):
    if isinstance(value, (np.ndarray, torch.Tensor)):
        return value.tolist()
    if isinstance(value, dict):
        return {key: plain(entry) for key, entry in value.items() if key != "fl_seconds"}
    return [plain(entry) for entry in value] if isinstance(value, (list, tuple)) else value


REPORTS = {"with_output_bias": True, "with_update_norm": True, "with_label_counts": True}


@pytest.mark.parametrize(
    "fields",
    [
        {"num_clients": 6, "credit_clients": 2, "probing_epochs": 0.05, "with_loss": True},
        {"num_clients": 6, "churn_leave_rate": 0.3, "churn_return_rate": 0.5, "noisy_clients": (2,)},
        {"num_clients": 6, "reward": "shapley", "credit_clients": 4, "update_profile_size": 7, **REPORTS},
        {"num_clients": 6, "reward": "accuracy_change", "update_profile_size": 5, "churn_leave_rate": 0.3},
    ],
)
def test_same_bits_in_every_executor(actor_hosts, monkeypatch, fields):
    fields = {"train_samples": 12, "on_overrun": "drop", "on_client_failure": "drop", "budget_share": 0.7} | fields
    hosted = [
        rollout(loo_env(lambda config, n=n: hosted_executor(actor_hosts, config, n, OneFails), **fields))
        for n in (1, 2)
    ]
    monkeypatch.setattr(serial_executor, "ClientWorker", OneFails)
    serial = rollout(loo_env(**fields))
    assert hosted == [serial, serial]


def test_nothing_is_trained_twice(monkeypatch):
    trained = []

    class Counting(serial_executor.ClientWorker):
        def _fit(self, client, key, epochs):
            trained.append((key.round, client))
            super()._fit(client, key, epochs)

    monkeypatch.setattr(serial_executor, "ClientWorker", Counting)
    env = loo_env()
    env.reset(seed=5)
    step(env, (0, 1, 3))
    assert trained == [(0, client) for client in range(4)] + [(1, client) for client in (0, 1, 3)]


def test_a_cost_holds_the_evaluation_of_one_model_by_the_clients_drawn():
    fields = {"probing_epochs": 0.5, "cpu_freq_hz": (700e6,) * 4, "budget_j": 1.0}
    team, everybody, two = (
        loo_env(reward="accuracy_change", **fields),
        loo_env(**fields),
        loo_env(credit_clients=2, **fields),
    )
    infos = [env.reset(seed=5)[1] for env in (team, everybody, two)]
    assert team.budget_j == everybody.budget_j == two.budget_j
    assert len({info["client_000"]["budget"] for info in infos}) == 1
    costs = [np.array([info["cost"] for info in infos[number].values()]) for number in range(3)]
    # Half an epoch each of 8 + 12 + 20 + 16 samples.
    assert costs[1] - costs[0] == pytest.approx([0.5 * 56 * SAMPLE_EPOCH_J] * 4, rel=1e-6)
    for number in range(1, 6):
        judges = drawn_clients(range(4), 2, RoundKey(5, 0, number))
        samples = sum(TINY["train_samples"][client] for client in judges)
        costs_j = two.get_state()["costs_j"]
        assert costs_j - costs[0] == pytest.approx([0.5 * samples * SAMPLE_EPOCH_J] * 4, rel=1e-6)
        infos = step(two, (0, 3))[4]
        assert two.last_round.energy_j == pytest.approx(two.last_round.probing_j + costs_j[0] + costs_j[3], rel=1e-12)
        assert [info["granted_j"] for info in infos.values()] == [costs_j[0], 0.0, 0.0, costs_j[3]]


def test_free_of_charge_unless_probing_is_charged():
    infos = [loo_env(reward=reward).reset(seed=5)[1]["client_001"] for reward in ("accuracy_change", "leave_one_out")]
    assert infos[1] == infos[0] | {"own_reward": None}


@settings(max_examples=25, deadline=None)
@given(st.floats(0.0, 2.0), st.floats(0.2, 1.0), st.sampled_from([None, 1, 2, 9]), st.integers(0, 2**16))
def test_no_round_exceeds_the_budget(epochs, share, number, seed):
    fields = {"churn_leave_rate": 0.3, "churn_return_rate": 0.5, "device_changes": (DeviceChange(2, 1, 3e9),)}
    fields |= {"probing_epochs": epochs, "budget_share": share, "credit_clients": number, "on_overrun": "drop"}
    try:
        env = loo_env(local_epochs=1, train_samples=8, test_samples=4, rounds=4, **fields)
    except ValueError as error:
        assert "J a round" in str(error)
        return
    observations, infos = env.reset(seed=seed)
    while env.agents:
        assert all(env.observation_space(agent).contains(row) for agent, row in observations.items())
        costs = {ids([agent]).popitem()[0]: infos[agent]["cost"] for agent in env.agents}
        observations, _, _, _, infos = env.step(dict.fromkeys(env.agents, 1))
        done = env.last_round
        assert done.energy_j <= done.budget_j * (1 + BUDGET_TOLERANCE)
        assert done.energy_j == pytest.approx(done.probing_j + sum(costs[client] for client in done.trained), rel=1e-12)


def test_a_budget_below_the_cheapest_client_with_its_credit_is_refused():
    # Cheapest is client 0: 8 samples; all four evaluate half an epoch each, 0.5 * 56 * 4.01408e-6 J = 1.12394e-4 J,
    # as probing takes.
    fields = {"probing_epochs": 0.5, "cpu_freq_hz": (700e6,) * 4}
    cost_j = float(loo_env(**fields).costs_j[0])
    both_j = 2 * 1.12394e-4
    with pytest.raises(ValueError, match=r"needs .* J, 0\.000112394 J of it for its own reward"):
        loo_env(budget_j=cost_j + both_j * 0.99, **fields)
    loo_env(budget_j=cost_j + both_j * 1.01, **fields)
    loo_env(budget_j=cost_j + both_j * 0.99, credit_clients=2, **fields)


def test_a_restored_run_pays_the_same():
    fields = {"credit_clients": 2, "probing_epochs": 0.1, "churn_leave_rate": 0.2, "churn_return_rate": 0.5}
    env, other = loo_env(**fields), loo_env(**fields)
    env.reset(seed=5)
    env.step(dict.fromkeys(env.agents[:2], 1))
    other.set_state(env.get_state())
    for _ in range(2):
        outputs = [plain(each.step(dict.fromkeys(each.agents[-2:], 1))) for each in (env, other)]
        assert outputs[0] == outputs[1] and env.last_round == other.last_round


@settings(deadline=None)
@given(st.lists(st.integers(0, 50), unique=True, min_size=1), st.integers(1, 60), st.integers(0, 99))
def test_clients_drawn_are_live_and_as_many_as_asked_for(live, number, round_number):
    live = sorted(live)
    drawn = drawn_clients(live, number, RoundKey(1, 0, round_number))
    assert list(drawn) == sorted(set(drawn)) and set(drawn) <= set(live) and len(drawn) == min(number, len(live))
    assert drawn == drawn_clients(live, number, RoundKey(1, 0, round_number))
    assert drawn_clients(live, None, RoundKey(1, 0, round_number)) == tuple(live)


def test_every_client_is_drawn_about_equally_often():
    counts = np.bincount([c for r in range(2000) for c in drawn_clients(range(5), 2, RoundKey(0, 0, r))], minlength=5)
    # 2,000 * 2 / 5 = 800 each, with a standard deviation of 22.
    assert abs(counts - 800).max() < 90


def test_team_rewards_are_the_same_for_all():
    env = loo_env(reward="accuracy_change")
    env.reset(seed=5)
    rewards = step(env, (0, 1))[1]
    assert env.last_round.rewards == (env.last_round.reward,) * 4 == tuple(rewards.values())


def test_settings_that_cannot_be_are_refused():
    with pytest.raises(ValueError, match="credit_clients is 0; it must be a whole number of at least 1"):
        FederationConfig(credit_clients=0)
