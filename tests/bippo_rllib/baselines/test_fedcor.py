"""FedCor: the Gaussian process over changes of loss against SciPy's, its picks against conditioning by hand."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import approx_fprime
from scipy.stats import multivariate_normal

from bippo_rllib.baselines.fedcor import DISCOUNT, INTERVAL, WARM_UP, FedCor, is_random, observed
from bippo_rllib.baselines.loss_process import DIMENSION, NOISE, LossProcess, likelihood_gradient


def log_likelihood(places, changes):
    covariance = places @ places.T + NOISE**2 * np.eye(len(places))
    return multivariate_normal(cov=covariance).logpdf(changes)


def test_the_gradient_is_that_of_the_likelihood():
    rng = np.random.default_rng(3)
    places, changes = rng.normal(size=(4, DIMENSION)) / 3, rng.normal(size=4) / 10
    numeric = approx_fprime(places.ravel(), lambda flat: log_likelihood(flat.reshape(4, -1), changes), 1e-7)
    np.testing.assert_allclose(likelihood_gradient(places, changes).ravel(), numeric, rtol=1e-3, atol=1e-3)


def test_a_fit_finds_whose_losses_move_together():
    rng, process = np.random.default_rng(0), LossProcess(seed=1)
    common, opposed = rng.normal(size=(2, 10)) / 10
    records = [
        {"a": c, "b": c + rng.normal() / 200, "c": o, "d": -o + rng.normal() / 200}
        for c, o in zip(common, opposed, strict=True)
    ]
    before = sum(log_likelihood(process._stacked(list("abcd")), np.array(list(r.values()))) for r in records)
    for _ in range(5):
        process.fit(records)
    after = sum(log_likelihood(process._stacked(list("abcd")), np.array(list(r.values()))) for r in records)
    covariance = process.covariance(list("abcd"))
    correlations = covariance / np.sqrt(np.outer(np.diag(covariance), np.diag(covariance)))
    assert after > before
    assert correlations[0, 1] > 0.5 and correlations[2, 3] < -0.5
    assert np.linalg.eigvalsh(covariance).min() > 0


@given(st.integers(0, 10**6), st.integers(2, 7))
def test_conditioning_one_after_the_other_is_conditioning_on_all(seed, number):
    rng = np.random.default_rng(seed)
    root = rng.normal(size=(number, number))
    covariance, chosen = root @ root.T + 0.1 * np.eye(number), rng.permutation(number)[: rng.integers(1, number)]
    one_by_one = covariance
    for index in chosen:
        one_by_one = observed(one_by_one, index)
    inverse = np.linalg.inv(covariance[np.ix_(chosen, chosen)])
    at_once = covariance - covariance[:, chosen] @ inverse @ covariance[chosen]
    np.testing.assert_allclose(one_by_one, at_once, atol=1e-7 * np.abs(covariance).max())


CLIENTS = list("abcde")


def play(rule, rounds, costs=None, budget=2.0, clients=CLIENTS, seed=0):
    """Orders of some rounds; losses fall at random."""
    rng = np.random.default_rng(seed)
    orders = []
    for _ in range(rounds):
        infos = [{"loss": 1 + rng.normal() / 10, "num_samples": 10 * (i + 1)} for i in range(len(clients))]
        rule.observe(clients, infos)
        orders.append(list(rule.order(clients, infos, np.ones(len(clients)) if costs is None else costs, budget)))
    return orders


def test_random_rounds_are_the_first_and_every_tenth():
    expected = [*range(WARM_UP), WARM_UP + INTERVAL - 1, WARM_UP + 2 * INTERVAL - 1]
    assert [i for i in range(WARM_UP + 2 * INTERVAL) if is_random(i)] == expected
    orders = play(FedCor(seed=0), WARM_UP + INTERVAL)
    assert [len(order) for order in orders] == [5] * WARM_UP + [2] * (INTERVAL - 1) + [5]


def test_picks_have_the_highest_gain_under_the_budget_given_those_before():
    rule, costs = FedCor(seed=2), np.array([1.0, 2.0, 1.0, 2.0, 1.5])
    play(rule, WARM_UP, costs)
    for seed in range(INTERVAL - 1):
        (order,) = play(rule, 1, costs, budget=3.0, seed=seed)
        state, spent, chosen = rule.get_state(), 0.0, []
        places = np.array([state["process"]["places"][client] for client in CLIENTS])
        covariance = places @ places.T + NOISE**2 * np.eye(5)
        discounts = np.array([state["discounts"].get(c, 1.0) for c in CLIENTS])
        discounts[order] /= DISCOUNT
        shares = np.arange(1, 6) / 15
        while fits := [i for i in range(5) if i not in chosen and spent + costs[i] <= 3.0]:
            given_them = covariance
            if chosen:
                inverse = np.linalg.inv(covariance[np.ix_(chosen, chosen)])
                given_them = covariance - covariance[:, chosen] @ inverse @ covariance[chosen]
            gains = [discounts[i] * shares @ given_them[:, i] / np.sqrt(given_them[i, i]) for i in fits]
            chosen.append(fits[int(np.argmax(gains))])
            spent += costs[chosen[-1]]
        assert order == chosen


def test_it_goes_on_where_it_was_saved_and_learns_from_those_that_stayed():
    rule, copy = FedCor(seed=0), FedCor(seed=7)
    play(rule, 3)
    play(rule, 2, clients=[*CLIENTS, "new"])
    copy.set_state(rule.get_state())
    assert play(rule, 14, seed=4) == play(copy, 14, seed=4)
    assert [set(record) for record in rule.get_state()["history"]][-1] == set(CLIENTS)
    assert all(np.isfinite(place).all() for place in rule.get_state()["process"]["places"].values())


def test_a_round_in_which_nobody_trained_teaches_nothing():
    rule = FedCor(seed=0)
    infos = [{"loss": 1.0, "num_samples": 10}] * 2
    for _ in range(3):
        rule.observe(["a", "b"], infos)
        rule.order(["a", "b"], infos, np.ones(2), 0.0)
    assert rule.get_state()["history"] == []
    with pytest.raises(ValueError, match=r"has no 'loss', which FedCor needs; with envs.FederatedRounds set with_loss"):
        rule.observe(["a"], [{}])
