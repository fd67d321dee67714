"""BudgetSampler: never over budget, maximal, and each strategy as described."""

from __future__ import annotations

import math
import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bippo_rllib import BudgetSampler
from bippo_rllib.baselines.cyclic import Cyclic
from bippo_rllib.baselines.oort import Oort
from bippo_rllib.selection.budget_sampler import STRATEGIES
from bippo_rllib.selection.info_ranking import InfoRanking
from bippo_rllib.setting_error import SettingError

COSTS = st.one_of(st.floats(0.0, 100.0), st.sampled_from([0.0, 1.0, 1.0, 5.0, 1e-12, 1e12]))
BUDGETS = st.one_of(st.floats(0.0, 300.0), st.sampled_from([0.0, 1e-15, math.inf]))


def alternating(chosen, candidates):
    """A set score that likes even and odd clients in turn, and knows nothing of client 3."""
    return np.where(candidates == 3, np.nan, (candidates % 2 == len(chosen) % 2).astype(float))


@settings(max_examples=300)
@given(
    st.sampled_from([*STRATEGIES, "odds with a set score"]),
    st.lists(st.tuples(st.floats(0.0, 1.0) | st.just(0.5), COSTS), min_size=0, max_size=60),
    BUDGETS,
    st.booleans(),
    st.integers(0, 2**32),
)
def test_selection_fits_the_budget_and_is_maximal(strategy, clients, budget, explore, seed):
    scores, costs = [s for s, _ in clients], [c for _, c in clients]
    strategy, _, with_score = strategy.partition(" ")
    sampler = BudgetSampler(strategy, epsilon=0.5, seed=seed, set_weight=seed % 11 - 5 if with_score else 0.0)
    picked = sampler.select(scores, costs, budget, explore, set_score=alternating if with_score else None)
    limit = budget * (1 + 1e-9)
    spent = 0.0
    for index in picked:
        spent += costs[index]
    assert spent <= limit
    assert len(set(picked.tolist())) == len(picked)
    for index in set(range(len(costs))) - set(picked.tolist()):
        assert spent + costs[index] > limit


def test_greedy_skips_what_does_not_fit():
    # Best first: 1 (cost 6) fits into 10, 0 (cost 5) no longer does, 2 (cost 4) does.
    picked = BudgetSampler("greedy").select([0.8, 0.9, 0.1], [5.0, 6.0, 4.0], 10.0)
    assert picked.tolist() == [1, 2]


def test_budget_equal_to_cost_is_affordable_and_rounding_is_forgiven():
    assert BudgetSampler("greedy").select([1.0], [3.0], 3.0).tolist() == [0]
    # 0.1 + 0.2 = 0.30000000000000004 in binary.
    assert len(BudgetSampler("greedy").select([1.0, 1.0], [0.1, 0.2], 0.3)) == 2


def test_ties_are_broken_by_a_random_draw():
    sampler = BudgetSampler("greedy", seed=3)
    firsts = [int(sampler.select([0.5] * 4, [1.0] * 4, 1.0)[0]) for _ in range(400)]
    assert np.bincount(firsts, minlength=4).min() > 60  # 100 expected each, standard deviation 8.7


def test_epsilon_decays_once_per_exploring_selection():
    sampler = BudgetSampler(seed=0)
    for _ in range(3):
        sampler.select([0.1, 0.9], [1.0, 1.0], 2.0)
    assert sampler.epsilon == pytest.approx(0.9**3)
    sampler.select([0.1, 0.9], [1.0, 1.0], 2.0, explore=False)
    assert sampler.epsilon == pytest.approx(0.9**3)
    for _ in range(40):
        sampler.select([], [], 1.0)
    assert sampler.epsilon == 0.05


def test_epsilon_is_the_probability_of_a_random_pick():
    # Budget for one of ten; the best is picked with probability (1 - eps) + eps / 10 = 0.775 at eps = 0.25.
    sampler = BudgetSampler(epsilon=0.25, epsilon_decay=1.0, seed=0)
    scores = np.arange(10.0)
    hits = sum(int(sampler.select(scores, np.ones(10), 1.0)[0]) == 9 for _ in range(2000))
    assert abs(hits / 2000 - 0.775) < 0.04


@pytest.mark.parametrize("strategy", ["epsilon_greedy", "stochastic", "odds", "greedy"])
def test_without_exploration_the_highest_score_wins(strategy):
    sampler = BudgetSampler(strategy, epsilon=1.0, seed=0)
    for _ in range(20):
        assert sampler.select([0.2, 0.7, 0.6], [1.0, 1.0, 1.0], 2.0, explore=False).tolist() == [1, 2]


def test_random_stays_random_without_exploration():
    sampler = BudgetSampler("random", seed=0)
    firsts = {int(sampler.select([0.0, 1.0], [1.0, 1.0], 1.0, explore=False)[0]) for _ in range(50)}
    assert firsts == {0, 1}


def test_stochastic_draws_in_proportion():
    sampler = BudgetSampler("stochastic", seed=0)
    firsts = [int(sampler.select([0.1, 0.3, 0.0], [1.0] * 3, 1.0)[0]) for _ in range(2000)]
    shares = np.bincount(firsts, minlength=3) / 2000
    assert shares[2] == 0.0
    assert abs(shares[1] - 0.75) < 0.04


@pytest.mark.parametrize("scale", [0.0, 5e-324, 1e308])
def test_stochastic_with_extreme_scores(scale):
    picked = BudgetSampler("stochastic", seed=0).select([scale] * 5, [1.0] * 5, 5.0)
    assert sorted(picked.tolist()) == [0, 1, 2, 3, 4]


def plackett_luce(weights, costs, budget, picked=(), outside=0.0):
    """Probability of each order of picks: one in proportion to the weights among what is affordable, and so on; from
    the second pick on in competition with ``outside``, the weight of picking nobody any more."""
    spent = sum(costs[i] for i in picked)
    affordable = [i for i in range(len(weights)) if i not in picked and spent + costs[i] <= budget]
    if not affordable:
        return {picked: 1.0}
    nobody = outside if picked else 0.0
    total = nobody + sum(weights[i] for i in affordable)
    orders = {
        order: weights[i] / total * share
        for i in affordable
        for order, share in plackett_luce(weights, costs, budget, (*picked, i), outside).items()
    }
    return {**orders, picked: nobody / total} if nobody else orders


@pytest.mark.parametrize("outside_odds", [0.0, 1.0])
@pytest.mark.parametrize(
    ("scores", "costs", "budget"),
    [
        ([0.2, 0.5, 0.8], [1.0, 1.0, 1.0], 2.0),
        ([0.1, 0.6, 0.75, 0.5], [1.0, 2.0, 1.0, 3.0], 4.0),  # some orders end early because nothing more fits
        ([0.9, 1e-3, 0.5, 0.99], [2.0, 1.0, 1.0, 2.0], 3.0),
    ],
)
def test_odds_are_a_plackett_luce_draw_under_the_budget(scores, costs, budget, outside_odds):
    from scipy.stats import chisquare  # takes seconds to import

    # Odds p / (1 - p), so 0.2, 0.5, 0.8 have weights 1/4, 1, 4: the first pick is the third with 4 / 5.25 = 0.762. With
    # outside odds of 1, nobody else follows it with 1 / (1 + 1/4 + 1) = 0.444.
    expected = plackett_luce([p / (1 - p) for p in scores], costs, budget, outside=outside_odds)
    assert sum(expected.values()) == pytest.approx(1.0)
    sampler, draws = BudgetSampler("odds", outside_odds=outside_odds, seed=0), 3000
    drawn = dict.fromkeys(expected, 0)
    for _ in range(draws):
        drawn[tuple(sampler.select(scores, costs, budget).tolist())] += 1
    common = [order for order, share in expected.items() if share * draws >= 5]
    rest = draws - sum(drawn[order] for order in common)
    assert rest <= 30
    counts = np.array([drawn[order] for order in common])
    shares = np.array([expected[order] for order in common])
    assert chisquare(counts, shares / shares.sum() * counts.sum()).pvalue > 1e-3


def test_the_outside_option_never_leaves_a_round_without_clients():
    sampler = BudgetSampler("odds", outside_odds=1e300, seed=0)
    scores = [0.3, 0.5, 0.2]
    assert {len(sampler.select(scores, [1.0] * 3, 3.0)) for _ in range(50)} == {1}
    assert sampler.select(scores, [1.0] * 3, 3.0, explore=False).tolist() == [1]
    assert sampler.select([0.0, 0.0], [1.0] * 2, 2.0).size == 1
    for explore in (True, False):
        assert sampler.select([1.0, 1.0], [1.0] * 2, 2.0, explore).size == 2  # infinite odds against any


@given(
    st.lists(st.tuples(st.floats(0.0, 0.99), st.floats(0.1, 4.0)), min_size=1, max_size=9),
    st.floats(0.0, 9.0),
    st.sampled_from([0.0, 0.25, 1.0, 4.0]),
    st.booleans(),
)
def test_without_exploration_each_pick_is_the_likeliest_choice(clients, budget, outside_odds, with_score):
    # Every choice has its odds as weight, spending no more from the second pick on; the set term is small here, and
    # whether to spend more is decided without it.
    odds, costs = [p / (1 - p) for p, _ in clients], [cost for _, cost in clients]
    sampler = BudgetSampler("odds", outside_odds=outside_odds, set_weight=1e-9 * with_score, seed=0)
    set_score = alternating if with_score else None
    picked = sampler.select([p for p, _ in clients], costs, budget, explore=False, set_score=set_score).tolist()
    for number in range(len(picked) + 1):
        spent = sum(costs[i] for i in picked[:number])
        fits = [i for i in range(len(clients)) if i not in picked[:number] and spent + costs[i] <= budget * (1 + 1e-9)]
        best = max((odds[i] for i in fits), default=-1.0)
        if number == len(picked):
            assert not fits or (number and best <= outside_odds * (1 + 1e-9))
        else:
            assert odds[picked[number]] >= best * (1 - 1e-6)
            assert not number or best >= outside_odds * (1 - 1e-9)


NO_RATES = [None, "0.5", -1, math.nan, [], True, np.True_]


@pytest.mark.parametrize("make", [BudgetSampler, InfoRanking, Oort, Cyclic])
@pytest.mark.parametrize("seed", [-1, 1.5, "7", [1, -2]])
def test_what_is_no_seed_is_refused(make, seed):
    with pytest.raises(ValueError, match=re.escape(f"seed is {seed!r}; it must be")):
        make(seed=seed)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *((name, value) for name in ("epsilon", "epsilon_decay", "epsilon_min", "outside_odds") for value in NO_RATES),
        *(("strategy", "best"), ("epsilon", 1.5), ("epsilon_decay", 0), ("outside_odds", math.inf)),
        ("set_weight", math.inf),
    ],
)
def test_settings_out_of_range_are_refused(name, value):
    with pytest.raises(ValueError, match=re.escape(f"{name} is {value!r}; ")):
        BudgetSampler(**{name: value})


def test_odds_of_one_come_first_and_odds_of_zero_last():
    sampler = BudgetSampler("odds", seed=0)
    almost_one = 1.0 - 1e-15
    orders = [sampler.select([0.0, 1.0, almost_one, 0.0, 1.0], [1.0] * 5, 5.0).tolist() for _ in range(40)]
    assert {frozenset(order[:2]) for order in orders} == {frozenset({1, 4})}
    assert {order[2] for order in orders} == {2}
    assert {order[0] for order in orders} == {1, 4} and {order[3] for order in orders} == {0, 3}


@pytest.mark.parametrize("tiny", [1e-15, 1e-300])
def test_odds_close_to_zero_and_one_keep_their_ratio(tiny):
    # Of two clients with odds 3 : 1, the first is picked with 3/4, whether both are next to 0 or, as far as float64
    # can tell them apart, next to 1.
    for scores in ([3 * tiny, tiny], [1 - 2**-52, 1 - 3 * 2**-52]):
        sampler = BudgetSampler("odds", seed=0)
        firsts = [int(sampler.select(scores, [1.0, 1.0], 1.0)[0]) for _ in range(2000)]
        assert abs(firsts.count(0) / 2000 - 0.75) < 0.03


@pytest.mark.parametrize("score", [1.0 + 1e-9, -0.5, math.inf])
def test_odds_need_probabilities(score):
    with pytest.raises(ValueError, match=f"bob has score {score}; it must be a probability"):
        BudgetSampler("odds").select([0.1, score], [1.0, 1.0], 2.0, names=["ann", "bob"])


def test_a_client_of_infinite_cost_is_never_picked():
    assert BudgetSampler("greedy").select([1.0, 0.5], [math.inf, 1.0], math.inf).tolist() == [1]


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_state_round_trip_repeats_the_draws(strategy):
    sampler, other = BudgetSampler(strategy, seed=1), BudgetSampler(strategy, seed=2)
    arguments = (np.full(30, 0.5), np.ones(30), 5.0)
    sampler.select(*arguments)
    other.set_state(sampler.get_state())
    for _ in range(5):
        assert sampler.select(*arguments).tolist() == other.select(*arguments).tolist()
    assert sampler.epsilon == other.epsilon


@pytest.mark.parametrize(
    ("scores", "costs", "budget", "message"),
    [
        ([0.1, math.nan], [1.0, 1.0], 1.0, "bob has score nan"),
        ([0.1, 0.2], [1.0, math.nan], 1.0, "bob has cost nan"),
        ([0.1, 0.2], [-1.0, 1.0], 1.0, "ann has cost -1.0"),
        ([0.1, 0.2], [1.0, 1.0], math.nan, "the budget is nan"),
        ([0.1, 0.2], [1.0, 1.0], -1.0, "the budget is -1.0"),
        ([0.1], [1.0, 1.0], 1.0, r"shape \(1,\)"),
    ],
)
@pytest.mark.parametrize("strategy", STRATEGIES)
def test_bad_input_is_refused_by_name(strategy, scores, costs, budget, message):
    with pytest.raises(ValueError, match=message):
        BudgetSampler(strategy).select(scores, costs, budget, names=["ann", "bob"])


def test_negative_scores_are_refused_where_they_are_weights():
    for strategy in STRATEGIES:
        sampler = BudgetSampler(strategy, seed=0)
        if strategy in ("stochastic", "odds"):
            with pytest.raises(ValueError, match=r"agent 1 has score -0\.5"):
                sampler.select([0.1, -0.5], [1.0, 1.0], 2.0)
        else:
            assert sorted(sampler.select([0.1, -0.5], [1.0, 1.0], 2.0)) == [0, 1]
    for score in (math.inf, -1.0):  # also where another one is no candidate
        with pytest.raises(ValueError, match=f"agent 1 has score {score}"):
            BudgetSampler("stochastic").select([-math.inf, score], [1.0, 1.0], 2.0)


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("explore", [True, False])
def test_minus_infinity_is_no_candidate_for_any_strategy(strategy, explore):
    sampler = BudgetSampler(strategy, epsilon=1.0, epsilon_decay=1.0, seed=0)
    scores = [-math.inf, 0.4, -math.inf, 0.0]
    for _ in range(30):
        assert sorted(sampler.select(scores, [1.0] * 4, 10.0, explore).tolist()) == [1, 3]
    assert sampler.select([-math.inf] * 2, [0.0, 1.0], math.inf, explore).tolist() == []


@pytest.mark.parametrize("epsilon", [0.0, 0.01])
def test_an_epsilon_below_the_minimum_is_left_there(epsilon: float) -> None:
    sampler = BudgetSampler("epsilon_greedy", epsilon=epsilon, epsilon_min=0.05, seed=7)
    for _ in range(5):
        sampler.select([0.5, 0.6], [1.0, 1.0], 1.0)
        assert sampler.epsilon <= epsilon


@pytest.mark.parametrize("rate", [*NO_RATES, 7.0])
def test_a_rate_out_of_range_is_refused_wherever_it_comes_from(rate) -> None:
    sampler, other = BudgetSampler(epsilon=0.5, seed=7), BudgetSampler(seed=8)
    before = sampler.get_state()
    with pytest.raises(SettingError, match=re.escape(f"epsilon is {rate!r}; it must be a number in [0, 1]")):
        sampler.epsilon = rate
    with pytest.raises(SettingError, match="epsilon is"):
        sampler.set_state({**other.get_state(), "epsilon": rate})
    assert sampler.get_state() == before
