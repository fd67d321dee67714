"""The selector's own energy: MACs by joules per MAC, out of the same budget as the clients'."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from quick_federation import quick

from envs.rules.budget import BUDGET_TOLERANCE
from envs.rules.churn import ChurnEvent
from experiments.study.row_callback import TrialInfo
from experiments.study.trial_config import bippo_config


def keywords(method, **overrides):
    given = {"env.joules_per_mac": 1e-9} | overrides
    return bippo_config(TrialInfo("digits", method, 7), {"num_clients": 20}, given, 4).env_config


def test_a_round_pays_for_live_clients_and_for_those_that_train():
    env = quick(joules_per_mac=1e-7, selector_macs=(100.0, 300.0), churn=(ChurnEvent(1, 3, "leave"),))
    plain = quick()
    _, infos = env.reset(seed=1)
    assert env.budget_j == plain.budget_j  # a dear selector gets no larger budget
    assert infos["client_000"]["budget"] == pytest.approx(env.budget_j - 4 * 1e-5)
    assert infos["client_000"]["cost"] == pytest.approx(plain.costs_j[0] + 3e-5)
    env.step({"client_000": 1})
    done = env.last_round
    assert done.selection_j == pytest.approx(4 * 1e-5 + 3e-5)
    assert done.energy_j == pytest.approx(plain.costs_j[0] + done.selection_j)
    env.step({})
    assert env.last_round.selection_j == env.last_round.energy_j == pytest.approx(3 * 1e-5)


@settings(max_examples=60, deadline=None)
@given(st.floats(0.0, 1e-3), st.floats(0.0, 10.0), st.floats(0.0, 10.0), st.sampled_from([0.0, 0.2]))
def test_no_round_exceeds_the_budget_whatever_selecting_takes(joules_per_mac, live, trains, probing_epochs):
    churn = {"churn_leave_rate": 0.3, "churn_return_rate": 0.5, "on_overrun": "drop"}
    charged = {"joules_per_mac": joules_per_mac, "selector_macs": (live, trains), "probing_epochs": probing_epochs}
    try:
        env = quick(**churn, **charged)
    except ValueError as error:
        assert "J a round" in str(error)
        return
    env.reset(seed=1)
    while env.agents:
        env.step(dict.fromkeys(env.agents, 1))
        done = env.last_round
        costs = dict(zip(done.clients, done.costs_j, strict=True))
        spent_j = done.probing_j + done.selection_j + sum(costs[client] for client in done.trained)
        assert done.energy_j <= done.budget_j * (1 + BUDGET_TOLERANCE)
        assert done.energy_j == pytest.approx(spent_j - len(done.trained) * joules_per_mac * trains, abs=1e-12)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        (
            {"joules_per_mac": 1.0, "selector_macs": (2.0, 0)},
            "^selecting among all 4 clients takes 8 J .*; lower joules_",
        ),
        (
            {"joules_per_mac": 1.0, "selector_macs": (2.0, 0), "probing_epochs": 0.1},
            "^probing and selecting among all 4 clients takes 8.* J .*; lower probing_epochs and joules_per_mac, or",
        ),
        ({"joules_per_mac": 1.0, "selector_macs": (0, 9.0)}, r", 9 J of it for learning \(see joules_per_mac\); raise"),
        ({"joules_per_mac": 1.0, "selector_macs": 5.0}, r"^selector_macs is 5\.0\b"),
        ({"joules_per_mac": 1.0, "selector_macs": (1.0, -1.0)}, r"^selector_macs is -1\.0\b"),
        ({"joules_per_mac": -1.0, "selector_macs": (1.0, 0)}, r"^joules_per_mac is -1\.0\b"),
    ],
)
def test_what_cannot_be_paid_or_is_no_charge_is_refused(fields, message):
    with pytest.raises(ValueError, match=message):
        quick(**fields)


def test_methods_pay_for_their_own_networks():
    # 1,664 MACs a pass, 23,424 of the central network at 20 clients; training is three passes for each of 8 epochs.
    assert keywords("bippo")["selector_macs"] == (1664.0, 24 * 1664.0)
    # Of that the critic is 5 * 128 + 128 = 768, which bippo-r does without.
    assert keywords("bippo-r")["selector_macs"] == (896.0, 24 * 896.0)
    assert keywords("bippo", num_epochs=4, hidden_size=64)["selector_macs"] == (832.0, 12 * 832.0)
    assert keywords("ppo")["selector_macs"] == (23_424 / 20, 24 * 23_424.0)
    assert keywords("fedavg")["selector_macs"] == keywords("oort")["selector_macs"] == (0.0, 0.0)
    assert keywords("bippo", **{"env.selector_macs": (1, 2)})["selector_macs"] == (1, 2)
    assert "selector_macs" not in keywords("bippo", **{"env.joules_per_mac": 0})
