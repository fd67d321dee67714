"""Leave-one-out rewards: recomputed independently, and charged within the budget."""

from __future__ import annotations

import numpy as np
import pytest
from actor_hosts import OneFails
from hypothesis import given
from hypothesis import strategies as st
from plain_federation import PlainFederation
from torch import nn

import envs
from envs.config import FederationConfig, only_read
from envs.rng import RoundKey
from envs.rules.churn import ChurnEvent
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
    received = []
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
        received += [rewards[agents[client]] for client in clients]
    assert len(set(received)) > 4 and min(received) < 0 < max(received)


def test_a_client_that_fails_has_no_reward_and_the_others_those_of_a_round_without_it(monkeypatch):
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


def test_nothing_is_trained_twice_and_evaluations_are_free_unless_probing_is_charged(monkeypatch):
    trained = []

    class Counting(serial_executor.ClientWorker):
        def _fit(self, client, key, epochs):
            trained.append((key.round, client))
            super()._fit(client, key, epochs)

    monkeypatch.setattr(serial_executor, "ClientWorker", Counting)
    team, env = loo_env(reward="accuracy_change"), loo_env()
    shared = team.reset(seed=5)[1]["client_001"]
    trained.clear()
    assert env.reset(seed=5)[1]["client_001"] == shared | {"own_reward": None}
    step(env, (0, 1, 3))
    assert trained == [(0, client) for client in range(4)] + [(1, client) for client in (0, 1, 3)]
    assert len(set(step(team, (0, 1))[1].values())) == 1 and set(team.last_round.rewards) == {team.last_round.reward}


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
