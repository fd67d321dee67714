"""Probing charged to the budget: what it takes, what it leaves, and what happens when it takes more than there is."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from quick_federation import quick

import envs
from envs.config import FederationConfig
from envs.devices import CostModel
from envs.rules.budget import BUDGET_TOLERANCE, split_budget
from envs.rules.churn import ChurnEvent
from envs.rules.device_change import DeviceChange

# Digits: 20 samples of 64 values, 32 bits each: an epoch at 700 MHz takes 4e-27 * 40,960 bit * 4.9e17 = 8.028160e-5 J,
# at 1.5 GHz 4e-27 * 40,960 * 2.25e18 = 3.686400e-4 J. Of the four clients 0 is cheap (700 MHz) if each quarter has one.
CHEAP_EPOCH_J, EXPENSIVE_EPOCH_J = 8.028160e-5, 3.686400e-4


def test_fashion_mnist_probing_takes_27_percent_of_the_budget():
    # A third of an epoch on 1,200 * 784 values: 0.05900698 J / 3 at 700 MHz, 0.27095040 J / 3 at 1.5 GHz.
    # 8 * 0.01966899 + 12 * 0.09031680 = 0.15735194 + 1.08380160 = 1.24115354 J of 4.594 J. What is left, 3.353 J,
    # still pays two cheap clients (3.022 J) or one expensive; before it paid three cheap, or one of each (4.082 J).
    config = FederationConfig(dataset="fashion_mnist", probing_epochs=1 / 3)
    model = CostModel(config, 431_080, 784, np.full(20, 1200))
    epochs_j = model.epochs_j(config.start_freq_hz)
    probing_j = model.probing_j(epochs_j, range(20))
    assert probing_j == pytest.approx(1.24115354, abs=1e-8)
    costs_j = model.costs_j(epochs_j)
    budget_j = 0.107 * costs_j.sum()
    cheap, expensive = costs_j.min(), costs_j.max()
    assert probing_j / budget_j == pytest.approx(0.2702, abs=5e-5)
    assert 3 * cheap < budget_j and cheap + expensive < budget_j
    left = split_budget(budget_j, probing_j)[1]
    assert 2 * cheap < left < min(3 * cheap, cheap + expensive)


def test_a_round_charges_every_live_client_and_leaves_the_rest():
    env = quick(probing_epochs=0.5, cpu_freq_hz=(700e6, 1500e6, 1500e6, 1500e6))
    _, infos = env.reset(seed=1)
    probing_j = 0.5 * (CHEAP_EPOCH_J + 3 * EXPENSIVE_EPOCH_J)
    assert {info["budget"] for info in infos.values()} == {infos["client_000"]["budget"]}
    assert infos["client_000"]["budget"] == pytest.approx(env.budget_j - probing_j, rel=1e-9)
    env.step({"client_001": 1})
    done = env.last_round
    assert done.probing_j == pytest.approx(probing_j, rel=1e-9)
    assert done.energy_j == done.probing_j + infos["client_001"]["cost"] <= done.budget_j == env.budget_j
    env.step({})
    assert env.last_round.energy_j == env.last_round.probing_j == done.probing_j


def test_off_by_default_and_then_nothing_changes():
    assert envs.FederationConfig().probing_epochs == 0.0
    env = quick()
    _, infos = env.reset(seed=1)
    assert infos["client_000"]["budget"] == env.budget_j
    env.step({"client_001": 1})
    assert (env.last_round.probing_j, env.last_round.energy_j) == (0.0, infos["client_001"]["cost"])


def test_what_probing_took_is_not_there_for_training():
    both = {"client_000": 1, "client_001": 1}
    budget_j = float(quick().costs_j[:2].sum())
    free, charged = quick(budget_j=budget_j), quick(budget_j=budget_j, probing_epochs=0.01)
    for env in (free, charged):
        _, infos = env.reset(seed=1)
    free.step(both)
    assert free.last_round.trained == (0, 1)
    with pytest.raises(ValueError, match=f"the budget of the round is {infos['client_000']['budget']:.6g} J"):
        charged.step(both)


@settings(max_examples=60, deadline=None)
@given(st.floats(0.0, 3.0), st.floats(0.05, 1.0), st.integers(0, 2**16))
def test_no_round_exceeds_the_budget_whatever_probing_takes(epochs, share, seed):
    churn = {"churn_leave_rate": 0.3, "churn_return_rate": 0.5, "device_changes": (DeviceChange(2, 1, 3e9),)}
    try:
        env = quick(probing_epochs=epochs, budget_share=share, on_overrun="drop", rounds=5, **churn)
    except ValueError as error:
        assert "J a round" in str(error)
        return
    env.reset(seed=seed)
    while env.agents:
        _, _, _, _, infos = env.step(dict.fromkeys(env.agents, 1))
        done = env.last_round
        assert done.energy_j <= done.budget_j * (1 + BUDGET_TOLERANCE)
        costs = dict(zip(done.clients, done.costs_j, strict=True))
        assert done.energy_j == pytest.approx(done.probing_j + sum(costs[c] for c in done.trained), rel=1e-12)
        assert all(0.0 <= info["budget"] <= env.budget_j for info in infos.values())


def test_churn_and_devices_change_what_probing_takes():
    churn = (ChurnEvent(1, 3, "join"), ChurnEvent(2, 2, "leave"))
    env = quick(
        probing_epochs=1.0,
        cpu_freq_hz=(700e6,) * 4,
        churn=churn,
        budget_j=1.0,
        device_changes=(DeviceChange(4, 0, 1.5e9),),
    )
    env.reset(seed=1)
    taken = []
    for _ in range(4):
        env.step({})
        taken.append(env.last_round.probing_j)
    per_round = [3 * CHEAP_EPOCH_J, 4 * CHEAP_EPOCH_J, 3 * CHEAP_EPOCH_J, 2 * CHEAP_EPOCH_J + EXPENSIVE_EPOCH_J]
    assert taken == pytest.approx(per_round, rel=1e-9)


def test_if_probing_takes_more_than_the_budget_nobody_is_probed_and_nobody_trains():
    # Two clients are live at the start and can be probed; the third to join makes it too dear, until it leaves.
    churn = (
        ChurnEvent(1, 2, "join"),
        ChurnEvent(2, 2, "leave"),
        ChurnEvent(4, 3, "join"),
    )
    frequencies = (700e6, 700e6, 3e9, 700e6)
    cost_j = float(quick(cpu_freq_hz=frequencies).costs_j[0])
    budget_j = 2 * CHEAP_EPOCH_J * 5 + cost_j
    env = quick(probing_epochs=5.0, cpu_freq_hz=frequencies, budget_j=budget_j, churn=churn, rounds=5)
    _, infos = env.reset(seed=1)
    assert infos["client_000"]["budget"] == pytest.approx(cost_j, rel=1e-9)
    observations, _, _, _, infos = env.step({"client_000": 1})
    assert {info["budget"] for info in infos.values()} == {0.0}  # 4e-27 * 40,960 * 9e18 * 5 = 7.37e-3 J is too much
    with pytest.raises(ValueError, match="the budget of the round is 0 J"):
        env.step({"client_000": 1})
    assert env.observation_space("client_000").contains(observations["client_000"])
    _, rewards, _, _, infos = env.step({})
    done = env.last_round
    assert (done.probing_j, done.energy_j, done.trained, set(rewards.values())) == (0.0, 0.0, (), {0.0})
    env.step({"client_000": 1})
    assert env.last_round.energy_j == pytest.approx(budget_j, rel=1e-9)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        # 4 * 100 * 8.02816e-5 J = 0.0321126 J
        (
            {"probing_epochs": 100.0, "budget_j": 0.02},
            r"^probing all 4 clients takes 0\.0321126 J a round, the budget is 0\.02 J; lower probing_epochs, or raise",
        ),
        ({"probing_epochs": 0.1, "budget_j": 0.0}, r"probing all 4 clients takes 3\.21126e-05 J .* budget is 0 J"),
        (
            {"probing_epochs": 100.0, "budget_j": 0.0322},
            r"^the budget of 0\.0322 J a round, less 0\.0321126 J for probing, is below the cheapest client",
        ),
        ({"probing_epochs": -1.0}, r"^probing_epochs is -1\.0; it must be a finite number of at least 0$"),
        ({"probing_epochs": math.inf}, "^probing_epochs is inf"),
        ({"probing_epochs": "a third"}, "^probing_epochs is 'a third'; it must be a number$"),
    ],
)
def test_a_budget_that_does_not_pay_the_probing_is_refused(fields, message):
    with pytest.raises(ValueError, match=message):
        quick(cpu_freq_hz=(700e6,) * 4, **fields)


def test_an_unlimited_budget_stays_unlimited():
    env = quick(probing_epochs=1.0, budget_j=math.inf)
    _, infos = env.reset(seed=1)
    assert infos["client_000"]["budget"] == math.inf
    env.step({})
    assert 0.0 < env.last_round.energy_j == env.last_round.probing_j < math.inf


def test_a_restored_run_goes_on_charging():
    churn = (ChurnEvent(1, 3, "leave"),)
    env, other = (quick(probing_epochs=0.5, churn=churn) for _ in range(2))
    env.reset(seed=1)
    env.step({"client_000": 1})
    other.set_state(env.get_state())
    for each in (env, other):
        each.step({"client_000": 1})
    assert env.last_round == other.last_round and env.last_round.probing_j > 0.0
