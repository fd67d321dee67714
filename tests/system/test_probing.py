"""Probing charged to the budget: what it takes, what it leaves, and what happens when it takes more than there is."""

from __future__ import annotations

import numpy as np
import pytest
from quick_federation import quick

from envs.config import FederationConfig
from envs.devices import CostModel
from envs.rules.budget import split_budget
from envs.rules.churn import ChurnEvent
from envs.rules.device_change import DeviceChange

# Digits: 20 samples of 64 values, 32 bits each: an epoch at 700 MHz takes 4e-27 * 40,960 bit * 4.9e17 = 8.028160e-5 J,
# at 1.5 GHz 4e-27 * 40,960 * 2.25e18 = 3.686400e-4 J. Of the four clients 0 is cheap (700 MHz) if each quarter has one.
CHEAP_EPOCH_J, EXPENSIVE_EPOCH_J = 8.028160e-5, 3.686400e-4


def test_fashion_mnist_probing_takes_27_percent_of_the_budget():
    # A third of an epoch on 1,200 * 784 values: 0.05900698 J / 3 at 700 MHz, 0.27095040 J / 3 at 1.5 GHz.
    # 8 * 0.01966899 + 12 * 0.09031680 = 0.15735194 + 1.08380160 = 1.24115354 J of 4.594 J. What is left, 3.353 J,
    # still suffices for two cheap clients (3.022 J) or one expensive; before it
    # sufficed for three cheap, or one of each (4.082 J).
    config = FederationConfig(dataset="fashion_mnist", probing_epochs=1 / 3)
    model = CostModel(config, 431_080, 784, np.full(20, 1200))
    epoch_j = model.epoch_j(config.start_freq_hz)
    probing_j = model.probing_j(epoch_j, range(20))
    assert probing_j == pytest.approx(1.24115354, abs=1e-8)
    costs_j = model.costs_j(epoch_j)
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
        ({"probing_epochs": 100.0, "budget_j": 0.02}, r"takes 0\.0321126 J a round, the budget is 0\.02 J"),
        ({"probing_epochs": 0.1, "budget_j": 0.0}, r"takes 3\.21126e-05 J .* budget is 0 J"),
        ({"probing_epochs": 100.0, "budget_j": 0.0322}, r"0\.0322 J a round, less 0\.0321126 J for probing"),
        ({"probing_epochs": 0.0, "budget_j": 0.001}, r"0\.001 J a round is below .*: client_000 needs 0.00\d+ J"),
    ],
)
def test_a_budget_below_what_a_round_takes_is_refused(fields, message):
    with pytest.raises(ValueError, match=message):
        quick(cpu_freq_hz=(700e6,) * 4, **fields)
