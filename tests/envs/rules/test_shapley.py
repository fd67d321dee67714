"""Shapley rewards: the axioms, recomputed independently, and charged within the budget."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from plain_federation import PlainFederation
from quick_federation import quick

import envs
from envs.rng import RoundKey
from envs.rules.leave_one_out import drawn_clients
from envs.rules.shapley import coalitions, orders, shapley_values
from envs.training import models
from envs.training.models import build_model

KEY = RoundKey(3, 0, 1)


def subsets(players):
    return [frozenset(some) for size in range(len(players) + 1) for some in itertools.combinations(players, size)]


def by_subsets(players, values):
    """Shapley's own formula, over coalitions instead of orders."""
    n, phi = len(players), {}
    for player in players:
        others = subsets([other for other in players if other != player])
        weight = {len(s): math.factorial(len(s)) * math.factorial(n - len(s) - 1) / math.factorial(n) for s in others}
        phi[player] = sum(weight[len(s)] * (values[s | {player}] - values[s]) for s in others)
    return phi


GAMES = st.integers(1, 6).flatmap(
    lambda n: st.tuples(st.just(range(n)), st.lists(st.floats(0.0, 1.0), min_size=2**n, max_size=2**n))
)


@given(GAMES, st.integers(1, 3))
def test_the_values_of_a_round_add_up_to_its_change(game, pairs):
    players, numbers = game
    values = dict(zip(subsets(players), numbers, strict=True))
    phi = shapley_values(orders(players, KEY, pairs), values)
    assert sum(phi.values()) == pytest.approx(values[frozenset(players)] - values[frozenset()], abs=1e-12)
    if len(players) <= 3:
        assert phi == pytest.approx(by_subsets(players, values), abs=1e-12)


@given(GAMES, st.data())
def test_a_client_without_effect_gets_nothing_and_equal_ones_the_same(game, data):
    players, numbers = game
    idle = data.draw(st.sampled_from(list(players)))
    values = dict(zip(subsets(players), numbers, strict=True))
    without = {s: values[s - {idle}] for s in values}
    assert shapley_values(orders(players, KEY, 1), without)[idle] == 0.0
    by_size = {s: numbers[len(s)] for s in values}
    phi = shapley_values(orders(players, KEY, 1), by_size)
    if len(players) <= 3:
        assert list(phi.values()) == pytest.approx([phi[0]] * len(players), abs=1e-12)


def test_the_glove_game():
    # 0 and 1 have a left glove each, 2 the right one; a pair has the value 1. Of the six orders 2 completes a pair
    # in the four in which it does not come first, 0 in "2 0 1" and 1 in "2 1 0".
    values = {s: float(2 in s and len(s) > 1) for s in subsets(range(3))}
    assert shapley_values(orders(range(3), KEY, 1), values) == pytest.approx({0: 1 / 6, 1: 1 / 6, 2: 4 / 6})


@pytest.mark.parametrize(("number", "pairs", "models_"), [(1, 1, 0), (2, 1, 2), (3, 1, 6), (4, 1, 6), (9, 2, 32)])
def test_so_many_models_are_evaluated(number, pairs, models_):
    # 2**n - 2 up to three participants, else at most 2 (n - 1) a pair.
    needed = coalitions(orders(range(number), KEY, pairs))
    assert len(needed) == models_ and all(0 < len(coalition) < number for coalition in needed)


def test_drawn_values_are_right_in_the_mean_and_depend_on_the_round_alone():
    rng = np.random.default_rng(0)
    values = {s: float(rng.random()) for s in subsets(range(5))}
    drawn = [shapley_values(orders(range(5), RoundKey(0, 0, r), 1), values) for r in range(3000)]
    means = {player: np.mean([phi[player] for phi in drawn]) for player in range(5)}
    # A marginal contribution has a standard deviation of about .4; 3,000 means of two have a standard error of .005.
    assert means == pytest.approx(by_subsets(range(5), values), abs=0.03)
    assert orders(range(5), KEY, 2) == orders(range(5), KEY, 2) != orders(range(5), RoundKey(3, 0, 2), 2)


@pytest.mark.parametrize("fields", [{}, {"credit_clients": 2, "shapley_pairs": 2}, {"reward_base": 3.0}])
def test_rewards_are_those_that_plain_torch_finds(fields):
    sizes = {"num_clients": 5, "train_samples": (8, 12, 20, 16, 10), "test_samples": 20, "batch_size": 8}
    fields = sizes | {"local_epochs": 2, "budget_share": 1.0, "executor": "serial"} | fields
    env = envs.parallel_env(**fields, reward="shapley")
    env.reset(seed=5)
    plain, base = PlainFederation(env.config, 5), env.config.reward_base
    for number, clients in enumerate(((0, 1, 2), (3,), (1, 4), (0, 1, 2, 4)), start=1):
        start, key = build_model("digits_cnn", (1, 8, 8), 10), RoundKey(5, 0, number)
        models.FlatWeights(start).set(env.get_state()["weights"])
        rewards = env.step({f"client_{client:03d}": 1 for client in clients})[1]
        trained = {client: plain.trained(start, client, number) for client in clients}
        judges = drawn_clients(range(5), env.config.credit_clients, key)
        values = {s: plain.accuracy(plain.average(start, {c: trained[c] for c in s}), judges) for s in subsets(clients)}
        phi = by_subsets(clients, values) if len(clients) <= 3 else {}
        for order in orders(clients, key, env.config.shapley_pairs) if not phi else ():
            for place, client in enumerate(order):
                gain = values[frozenset(order[: place + 1])] - values[frozenset(order[:place])]
                phi[client] = phi.get(client, 0.0) + gain / (2 * env.config.shapley_pairs)
        for client in range(5):
            effect = phi.get(client, 0.0)
            expected = math.copysign(base ** abs(effect) - 1.0, effect)
            assert rewards[f"client_{client:03d}"] == pytest.approx(expected, abs=1e-9), (number, client)


@pytest.mark.parametrize(("pairs", "number"), [(1, None), (3, 2)])
def test_the_evaluation_is_charged(pairs, number):
    fields = {"probing_epochs": 0.1, "credit_clients": number, "budget_share": 0.9}
    env = quick(reward="shapley", shapley_pairs=pairs, **fields)
    free, one = quick(**fields), quick(reward="leave_one_out", **fields)
    for each in (env, free, one):
        each.reset(seed=1)
    # Twice as many models a pair as leave-one-out's one, evaluated by the same clients.
    assert env.costs_j - free.costs_j == pytest.approx(2 * pairs * (one.costs_j - free.costs_j), rel=1e-9)
    assert (one.costs_j > free.costs_j).all()
