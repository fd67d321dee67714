"""The team reward and the observations."""

from __future__ import annotations

import math
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from envs.observation import observe
from envs.rules.observation import cost_shares
from envs.rules.reward import TEAM_REWARDS, accuracy_reward, accuracy_target_reward, effect_reward

ACCURACY = st.floats(0.0, 1.0)


def test_golden_values():
    # 64**0.5 = 8 and 64**(1/3) = 4, with the sign of the change
    assert accuracy_reward(0.25, 0.75) == pytest.approx(8.0)
    assert accuracy_reward(1.0, 2 / 3) == pytest.approx(-4.0)
    assert accuracy_reward(0.5, 0.5) == 0.0
    # ln 1.0867 = 0.02 * ln 64 = 0.02 * 4.158883 = 0.0831777
    assert accuracy_reward(0.50, 0.52) == pytest.approx(math.exp(0.02 * 4.158883083), rel=1e-9)
    assert accuracy_reward(0.0, 1.0, base=3.0) == pytest.approx(3.0)


@given(ACCURACY, ACCURACY)
def test_antisymmetric_and_at_least_one_in_size(previous, current):
    reward = accuracy_reward(previous, current)
    assert reward == -accuracy_reward(current, previous)
    assert (reward == 0.0) == (abs(current - previous) < 1e-9)
    assert reward == 0.0 or 1.0 <= abs(reward) <= 64.0


RIGHT_ANSWERS = st.lists(st.integers(0, 19), min_size=2, max_size=60)


@given(right=RIGHT_ANSWERS, test_samples=st.sampled_from([20, 55, 200, 997]), order=st.randoms(use_true_random=False))
def test_the_same_right_answers_of_other_clients_are_a_tie(right, test_samples, order):
    """The means of the same numbers in another order may differ in their last bits; the sum of integers does not."""
    others = order.sample(right, len(right))
    previous, current = (float(np.mean(np.array(answers) / test_samples)) for answers in (right, others))
    assert accuracy_reward(previous, current) == 0.0


@given(right=RIGHT_ANSWERS, test_samples=st.sampled_from([20, 55, 200, 10_000]), data=st.data())
def test_one_more_right_answer_of_one_client_is_no_tie(right, test_samples, data):
    more = np.array(right)
    more[data.draw(st.integers(0, len(right) - 1))] += 1
    previous, current = (float(np.mean(np.array(answers) / test_samples)) for answers in (right, more))
    assert 1.0 < accuracy_reward(previous, current) == -accuracy_reward(current, previous)


def test_accuracy_target_is_negative_below_the_target():
    # 64**(0.3 - 0.8) - 1 = 1/8 - 1
    assert accuracy_target_reward(0.3, 0.8) == pytest.approx(-0.875)
    assert accuracy_target_reward(0.8, 0.8) == 0.0


def test_the_reward_of_an_effect_is_0_at_0_and_has_its_sign():
    # 64**0.5 - 1 = 7; next to 0 it is ln(64) times the effect: 1e-6 * 4.158883
    assert effect_reward(0.5) == pytest.approx(7.0)
    assert effect_reward(-0.5) == pytest.approx(-7.0)
    assert effect_reward(0.0) == 0.0
    assert effect_reward(1e-6) == pytest.approx(4.158883e-6, rel=1e-4)


def test_registry_follows_the_functions():
    assert TEAM_REWARDS["accuracy_change"](0.25, 0.75, 64.0, 0.9) == accuracy_reward(0.25, 0.75)
    assert TEAM_REWARDS["accuracy_target"](0.25, 0.75, 64.0, 0.9) == accuracy_target_reward(0.75, 0.9)


@pytest.mark.parametrize(("previous", "current"), [(float("nan"), 0.5), (0.5, 1.1), (-0.1, 0.5)])
def test_accuracies_outside_the_unit_interval_are_refused(previous, current):
    with pytest.raises(ValueError, match=r"must lie in \[0, 1\]"):
        accuracy_reward(previous, current)


def test_bad_base_and_bad_effect_are_refused():
    with pytest.raises(ValueError, match="base is 0"):
        accuracy_reward(0.1, 0.2, base=0.0)
    for effect in (1.1, float("nan")):
        with pytest.raises(ValueError, match=f"effect is {effect}"):
            effect_reward(effect)


def test_observations_by_hand():
    state = SimpleNamespace(
        accuracies=np.array([0.2, 0.6, 0.9]),
        costs_j=np.array([1.0, 3.0, 8.0]),
        trained=np.array([True, False, True]),
        live=(0, 1),
    )
    observations = observe(state, [0, 1, 2], np.array([50, 200, 400]), budget_j=4.0, high=np.ones(5))
    # Mean over those live, (0.2 + 0.6) / 2; samples of 400; costs of 4 J, cut off at 1 for client 2, which has left.
    expected = [[0.4, 0.125, 0.2, 0.25, 1.0], [0.4, 0.5, 0.6, 0.75, 0.0], [0.4, 1.0, 0.9, 1.0, 1.0]]
    assert observations.dtype == np.float32
    np.testing.assert_array_equal(observations, np.array(expected, dtype=np.float32))


@pytest.mark.parametrize(("budget_j", "share"), [(math.inf, 0.0), (0.0, 1.0)])
def test_cost_share_without_a_finite_positive_budget(budget_j, share):
    assert cost_shares(np.ones(1), budget_j).tolist() == [share]
