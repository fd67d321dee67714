"""Rules that learn from each client's own rewards: the bandit in PPO's place, and GreedyFed."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import envs
from bippo_rllib.baselines.bandit import RewardRecord
from bippo_rllib.baselines.bandit_connector import BanditSuggestions
from bippo_rllib.baselines.greedyfed import GreedyFed
from bippo_rllib.baselines.rule_connector import RuleConnector
from bippo_rllib.selection.update_matching import UpdateMatching
from experiments.methods import METHODS

REWARDS = st.lists(st.tuples(st.sampled_from("abcd"), st.floats(-1.0, 1.0)), min_size=1, max_size=40)


def infos_of(agents, rewards, failed=()):
    shared = {"cost": 1.0, "budget": 2.0}
    return {a: {**shared, "own_reward": rewards.get(a), "failed": a in failed} for a in agents}


@given(REWARDS, st.floats(0.0, 5.0))
def test_logits_are_the_scaled_sums_of_standardised_rewards(rewards, gain):
    record = RewardRecord()
    for client, reward in rewards:
        record.add(client, reward)
    values = np.array([reward for _, reward in rewards])
    for client, logit in zip("abcde", record.logits(list("abcde"), gain), strict=True):
        own = [reward for who, reward in rewards if who == client]
        if values.std() > 1e-5 * np.abs(values).max(initial=1e-9):
            expected = gain * sum((own - values.mean()) / values.std()) / np.sqrt(len(own) + 1) if own else 0.0
            assert logit == pytest.approx(expected, rel=1e-3, abs=1e-3)
        elif values.std() == 0.0:
            assert logit == 0.0


def test_suggestions_only_turn_down_and_follow_clients_across_stays():
    connector = BanditSuggestions(client_of=lambda agent: agent.partition("#")[0])
    even = connector.scores(np.array([0.9, 0.1, 0.5]), ["a", "b", "c"], infos_of("abc", {}))
    assert even.tolist() == [0.5, 0.5, 0.5]
    connector.scores(np.full(3, 0.5), ["a", "b", "c"], infos_of("abc", {"a": 0.3, "b": -0.1}))
    later = connector.scores(np.full(3, 0.5), ["a", "b#1", "c"], infos_of(["a", "b#1", "c"], {}))
    # Mean .1, deviation .2: standardised 1 and -1, so 3 / sqrt(2) above and below; above counts as 0.
    np.testing.assert_allclose(later, [0.5, 1 / (1 + np.exp(3 / np.sqrt(2))), 0.5])
    restored = BanditSuggestions()
    restored.set_state({})
    restored.set_state(connector.get_state())
    np.testing.assert_array_equal(restored.scores(np.full(2, 0.5), ["a", "b"], infos_of("ab", {})), later[:2])


def test_the_bandit_differs_from_bippo_s_in_its_policies_alone():
    ours, bandit = (METHODS[name].make_config() for name in ("bippo-s", "bandit"))
    prior = ("prior_key", "prior_weight", "prior_only_lowers", "prior_standardised")  # the gain is of what policies say
    for name in ("sampler", "outside_odds", "set_weight", *prior):
        assert getattr(ours, name) == getattr(bandit, name), name
    assert ours.set_score is bandit.set_score is UpdateMatching
    assert METHODS["bippo-s"].federation == METHODS["bandit"].federation


def test_the_bandit_stands_before_the_prior(ray_session):
    keywords = METHODS["bandit"].with_requirements({"num_clients": 4, "rounds": 3, "budget_share": 0.6})
    algo = METHODS["bandit"].make_config().environment(envs.parallel_env, env_config=keywords).debugging(seed=1)
    algo = algo.build_algo()
    kinds = [type(connector).__name__ for connector in algo.env_runner.module_to_env.connectors]
    assert kinds == ["BanditSuggestions", "RepresentativenessPrior", "BudgetSamplerConnector"]
    algo.train()
    trained = algo.parallel_env.last_round
    algo.train()
    record = algo.env_runner.module_to_env.connectors[0].record.get_state()
    rewards = dict(zip(trained.clients, trained.rewards, strict=True))
    assert record["sums"] == {f"client_{client:03d}": rewards[client] for client in trained.trained}


def order(rule, rewards, failed=(), clients="abcd"):
    clients, infos = list(clients), list(infos_of(clients, rewards, failed).values())
    rule.observe(clients, infos)
    return "".join(clients[i] for i in rule.order(clients, infos, np.ones(len(clients)), 2.0))


def test_greedyfed_tries_everybody_once_and_then_takes_the_highest_mean():
    rule = GreedyFed(seed=0)
    first = order(rule, {})
    assert sorted(first) == list("abcd") and order(rule, {}) == first  # the order is drawn once
    x, y, z, w = first
    assert order(rule, {x: 0.2, y: -0.1}) == z + w + x + y
    assert order(rule, {z: 0.1}, failed=[w]) == x + z + w + y  # means .2, .1, 0 and -.1
    assert order(rule, {x: -0.4, z: 0.1}) == z + w + "".join(sorted(x + y, key=first.index))  # x is at -.1 too
    assert order(rule, {}, clients="abcde")[0] == "e"  # who joins is tried first


def test_greedyfed_goes_on_where_it_was_saved_and_names_what_is_missing():
    rule, copy = GreedyFed(seed=0), GreedyFed(seed=5)
    order(rule, {})
    order(rule, {"a": 0.5, "b": 0.1})
    copy.set_state(rule.get_state())
    assert order(rule, {"c": 0.2}, clients="abcdef") == order(copy, {"c": 0.2}, clients="abcdef")
    with pytest.raises(ValueError, match=r"the info of 'a' has no 'own_reward'.*GreedyFed needs.*reward='shapley'"):
        rule.observe(["a"], [{}])
    with pytest.raises(ValueError, match=r"the info of 'a' has 'own_reward' = nan; it must be a finite number"):
        order(rule, {"a": np.nan})


def test_a_rule_does_not_order_who_is_no_candidate():
    connector = RuleConnector(GreedyFed(seed=0))
    scores = connector.scores(np.array([-np.inf, 0.3, 0.5]), ["a", "b", "c"], infos_of("abc", {"a": 9.0}))
    assert scores[0] == -np.inf and sorted(scores[1:]) == [1.0, 2.0]
    assert set(connector.get_state()["places"]) == {"b", "c"}
