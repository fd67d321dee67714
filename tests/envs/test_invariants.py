"""What holds of every federation: the budget, its accounts, and that a restored run goes on bit for bit."""

from __future__ import annotations

import math
import pickle
import warnings

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from pettingzoo.test import parallel_api_test
from quick_federation import EVENTS, TINY, LoggingExecutor, MeteredExecutor, quick
from rollouts import plain, play, rollout

import envs
from envs.config import only_read
from envs.rules.budget import BUDGET_TOLERANCE
from envs.rules.churn import ChurnEvent
from envs.rules.device_change import DeviceChange
from envs.rules.reward import REWARDS

RATES = {"churn_leave_rate": 0.3, "churn_return_rate": 0.5}
DEVICES = {"device_changes": (DeviceChange(3, 1, 9e8),)}


@pytest.mark.parametrize(
    "fields",
    [
        *({}, {"with_loss": True, "reward": "accuracy_target"}, {"budget_j": 0.0}, {"budget_j": math.inf}),
        {"partition": "dirichlet_over_clients", **DEVICES},
        {"partition": "dirichlet_over_labels", "num_clients": 1, "budget_share": 1.0},
        *({"churn": EVENTS}, {"churn": EVENTS, "with_loss": True, "budget_j": 0.0}),
        {"churn": tuple(ChurnEvent(2, client, "leave") for client in range(4))},
        {**RATES, "rounds": 40},
    ],
)
def test_pettingzoos_own_suite_without_a_warning_about_agents(fields):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        parallel_api_test(quick(on_overrun="drop", **fields), num_cycles=60)


@settings(max_examples=150)
@given(st.data())
def test_no_round_exceeds_the_budget_and_its_accounts_add_up(data):
    def drawn(*values):
        return data.draw(st.sampled_from(values))

    fields = {"rounds": 4, "on_overrun": "drop", "reward": drawn(*REWARDS), "credit_clients": drawn(None, 1, 2, 9)}
    fields |= {"probing_epochs": drawn(0.0, data.draw(st.floats(0.0, 3.0))), "shapley_pairs": drawn(1, 3)}
    fields |= drawn({}, RATES, {"churn": EVENTS})
    budgets = {"budget_share": data.draw(st.floats(0.05, 1.0))}, {"budget_j": drawn(0.0, math.inf, 12.0)}
    fields |= drawn(*budgets)
    executor = LoggingExecutor
    if drawn(True, False):
        joules = st.one_of(st.sampled_from([0.0, 1e-300, 1e12]), st.floats(0.0, 10.0))
        executor = type("Drawn", (MeteredExecutor,), {"JOULES": iter(lambda: data.draw(joules), None)})
        fields["energy_meter"] = "nvml"
    elif drawn(True, False):
        fields["device_changes"] = (DeviceChange(2, 1, 3e9),)
    try:
        env = quick(executor, **fields)
        observations, infos = env.reset(seed=drawn(*range(20)))
    except ValueError as error:
        assert "J a round" in str(error)
        assume(False)
    while env.agents:
        for agent, row in observations.items():
            assert np.isfinite(row).all() and env.observation_space(agent).contains(row)
        budgets_j = {infos[agent]["budget"] for agent in env.agents}
        assert len(budgets_j) == 1 and 0.0 <= min(budgets_j) <= env.budget_j
        if not fields["probing_epochs"] or env.budget_j == math.inf:
            assert budgets_j == {env.budget_j}
        charged = {int(agent[7:10]): infos[agent]["cost"] for agent in env.agents}
        actions = {agent: drawn(0, 1, 1) for agent in env.agents}
        observations, _, _, _, infos = env.step(actions)
        done = env.last_round
        assert done.energy_j <= done.budget_j * (1 + BUDGET_TOLERANCE) and done.budget_j == env.budget_j
        assert done.energy_j == pytest.approx(done.probing_j + sum(charged[c] for c in done.trained), rel=1e-12)
        assert dict(zip(done.clients, done.costs_j, strict=True)) == charged
        assert sorted(done.trained + done.dropped) == [int(a[7:10]) for a, action in actions.items() if action]
        granted = {int(a[7:10]): info["granted_j"] for a, info in infos.items() if a in actions}
        assert granted == {client: cost if client in done.trained else 0.0 for client, cost in charged.items()}


LOO = {"reward": "leave_one_out", "credit_clients": 2, "probing_epochs": 0.1}


@pytest.mark.parametrize(
    ("any_executor", "fields"),
    [
        ("serial", {"with_loss": True, **DEVICES}),
        ("serial", {"churn": EVENTS, "probing_epochs": 0.1}),
        ("serial", {"reward": "shapley", "update_profile_size": 3, "churn": EVENTS}),
        ("serial", {**LOO, **RATES}),
        ("ray", {"churn": EVENTS}),
        ("ray", {**RATES, "with_loss": True}),
    ],
    indirect=["any_executor"],
)
def test_states_and_pickles_of_any_round_go_on_bit_for_bit(any_executor, fields):
    fields = only_read(TINY | {"on_overrun": "drop"} | fields)
    env = envs.parallel_env(**fields)
    whole = rollout(pickle.loads(pickle.dumps(env)), seed=7)  # also one that was never reset
    assert len(whole) == TINY["rounds"] + 1 and rollout(env, seed=7) == whole
    next_episode = rollout(env)
    assert next_episode != whole
    assert plain(env.reset(seed=7)) == whole[0]
    for done in range(TINY["rounds"]):
        twin = envs.parallel_env(**fields)
        twin.set_state(env.get_state())
        copies = [twin, pickle.loads(pickle.dumps(env))] if done == 2 else [twin]
        for copy in copies:
            assert copy.agents == env.agents and copy.possible_agents == env.possible_agents
            assert copy.last_round == env.last_round
            assert play(copy) == whole[done + 1 :]
        assert done != 2 or rollout(copies[1]) == next_episode
        play(env, 1)
    assert rollout(env) == next_episode
