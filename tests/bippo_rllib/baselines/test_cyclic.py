"""Cyclic participation: everybody has a turn, within the budget, before anybody has a second one."""

from __future__ import annotations

import copy
from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bippo_rllib import BudgetSampler
from bippo_rllib.baselines.cyclic import Cyclic
from bippo_rllib.selection.budget_sampler import BUDGET_TOLERANCE


def rounds_of(rule: Cyclic, costs: dict[str, float], budget: float, number: int) -> list[list[str]]:
    clients, prices = list(costs), np.array(list(costs.values()))
    infos = [{}] * len(clients)
    return [[clients[i] for i in rule.order(clients, infos, prices, budget)] for _ in range(number)]


@given(st.lists(st.floats(0.1, 4.0), min_size=1, max_size=9), st.floats(0.1, 6.0), st.integers(0, 99))
def test_turns_of_affordable_clients_differ_by_one_at_most(costs, budget, seed):
    named = {f"c{i}": cost for i, cost in enumerate(costs)}
    payable = [client for client, cost in named.items() if cost <= budget * (1 + BUDGET_TOLERANCE)]
    turns: Counter[str] = Counter()
    for picked in rounds_of(Cyclic(seed), named, budget, 30):
        assert len(set(picked)) == len(picked)
        assert sum(named[client] for client in picked) <= budget * (1 + 2 * BUDGET_TOLERANCE)
        assert picked or not payable
        turns.update(picked)
        counts = [turns[client] for client in payable]
        assert set(turns) <= set(payable)
        assert not counts or max(counts) - min(counts) <= 1


@given(st.lists(st.floats(0.1, 4.0), min_size=1, max_size=9), st.floats(0.1, 6.0), st.integers(0, 99))
def test_the_sampler_picks_what_the_rule_ordered(costs, budget, seed):
    rule = Cyclic(seed)
    for _ in range(5):
        asked = [f"c{i}" for i in range(len(costs))], [{}] * len(costs), np.array(costs), budget
        order = list(copy.deepcopy(rule).order(*asked))
        scores = rule.scores(*asked, candidates=np.ones(len(costs), dtype=bool))
        picked = BudgetSampler("greedy", seed=0).select(scores, costs, budget)
        assert picked.tolist() == order


def test_who_does_not_fit_keeps_its_place_and_the_budget_is_left():
    rule = Cyclic(0)
    rule.set_state({**rule.get_state(), "waiting": ["dear", "dearer", "a", "b"]})
    costs = {"a": 1.0, "b": 1.0, "dear": 2.0, "dearer": 3.0}
    # 3 J: dear, not dearer, a. Then dearer alone: b does not fit beside it. Then b, everybody has had a turn, and the
    # walk goes on in a new order.
    first, second, third = rounds_of(rule, costs, 3.0, 3)
    assert (first, second, third[0]) == (["dear", "a"], ["dearer"], "b")
    assert len(third) >= 2 and set(third[1:]) <= {"a", "dear"}


def test_who_joins_waits_behind_and_who_returns_goes_on():
    rule = Cyclic(3)
    rule.set_state({**rule.get_state(), "waiting": ["a", "b", "c"]})
    assert rounds_of(rule, {"b": 1.0, "c": 1.0}, 1.0, 1) == [["b"]]  # a is away
    assert rounds_of(rule, {"a": 1.0, "b": 1.0, "c": 1.0, "new": 1.0}, 1.0, 3) == [["a"], ["c"], ["new"]]


def test_orders_are_random_and_go_on_where_they_were_saved():
    costs = {f"c{i}": 1.0 for i in range(6)}
    firsts = Counter(rounds_of(Cyclic(seed), costs, 1.0, 1)[0][0] for seed in range(300))
    assert min(firsts.values()) > 25  # 50 each in the mean
    rule, copy = Cyclic(1), Cyclic(2)
    cycles = rounds_of(rule, costs, 2.0, 7)
    assert cycles[:3] != cycles[3:6]
    copy.set_state(rule.get_state())
    assert rounds_of(rule, costs, 2.0, 9) == rounds_of(copy, costs, 2.0, 9)


@pytest.mark.parametrize("budget", [0.0, 0.5])
def test_no_client_waits_for_one_that_no_budget_can_afford(budget):
    assert rounds_of(Cyclic(0), {"a": 1.0, "b": np.inf}, budget, 3) == [[], [], []]
    assert rounds_of(Cyclic(0), {"a": 0.2, "b": np.inf}, 0.5, 3) == [["a"], ["a"], ["a"]]


@pytest.mark.parametrize("seed", range(40))
@pytest.mark.parametrize("nothing", [0.0, 0.5])
def test_a_round_that_affords_nobody_gives_no_second_turns(seed, nothing):
    rule, costs = Cyclic(seed), dict.fromkeys("abcd", 1.0)
    first = rounds_of(rule, costs, 2.0, 1)[0]
    assert rounds_of(rule, costs, nothing, 3) == [[], [], []]
    assert sorted(first + rounds_of(rule, costs, 2.0, 1)[0]) == list("abcd")


@pytest.mark.parametrize("seed", range(40))
@pytest.mark.parametrize("cost", [None, 9.0])
def test_who_could_not_be_picked_when_an_order_began_is_first_once_it_can(seed, cost):
    """It is away, or costs too much, while the others begin several orders."""
    rule, costs = Cyclic(seed), dict.fromkeys("abc", 1.0)
    rule.set_state({**rule.get_state(), "waiting": ["a", "x", "b", "c"]})
    missing = costs if cost is None else {**costs, "x": cost}
    turns = Counter(client for picked in rounds_of(rule, missing, 1.0, 7) for client in picked)
    assert sorted(turns) == list("abc")
    assert rounds_of(rule, {**costs, "x": 1.0}, 1.0, 1) == [["x"]]
    later = rounds_of(rule, {**costs, "x": 1.0}, 1.0, 2)
    assert ["x"] not in later  # and then it waits as the others do
