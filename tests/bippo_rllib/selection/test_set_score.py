"""Set scores in the sampler, in a configuration, and update matching, recomputed independently."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from toy_envs import Workers

import envs
from bippo_rllib import BippoConfig, BudgetSampler, BudgetSamplerConnector, SetScore
from bippo_rllib.baselines.label_balance import LabelBalance
from bippo_rllib.selection.set_score import standardised
from bippo_rllib.selection.update_matching import UpdateMatching
from experiments.methods import METHODS

CLIENTS = st.lists(st.tuples(st.floats(0.0, 1.0), st.floats(0.0, 5.0)), min_size=1, max_size=12)


def even(chosen, candidates):
    return (candidates % 2 == 0).astype(float)


def spoils(chosen, candidates):
    candidates[:] = 0
    return np.zeros(len(candidates))


def test_a_pick_is_drawn_in_proportion_to_odds_times_the_exponential_of_the_set_score():
    # (1, 0, 0) has mean 1/3 and standard deviation sqrt(2)/3, so z is (1.41421, -0.70711, -0.70711). With odds 1, 1, 3
    # and weight 1 the probabilities are in proportion to e**1.41421, e**-0.70711, 3 e**-0.70711.
    weights = np.exp([np.sqrt(2), -np.sqrt(0.5), -np.sqrt(0.5)]) * [1, 1, 3]
    sampler = BudgetSampler("odds", set_weight=1.0, seed=0)
    first = lambda chosen, candidates: (candidates == 0).astype(float)  # noqa: E731
    picks = [sampler.select([0.5, 0.5, 0.75], [1, 1, 1], 1.0, set_score=first)[0] for _ in range(20_000)]
    np.testing.assert_allclose(np.bincount(picks) / 20_000, weights / weights.sum(), atol=0.012)
    assert sampler.select([0.5, 0.5, 0.75], [1, 1, 1], 1.0, explore=False, set_score=first).tolist() == [0]


@given(CLIENTS, st.integers(0, 99))
def test_without_weight_it_changes_nothing_and_its_candidates_are_a_copy(clients, seed):
    scores, costs = (np.array(column) for column in zip(*clients, strict=True))
    plain, without, weighing = (
        BudgetSampler("odds", outside_odds=1.0, set_weight=weight, seed=seed) for weight in (0.0, 0.0, 2.0)
    )
    selected = plain.select(scores, costs, 6.0)
    np.testing.assert_array_equal(selected, without.select(scores, costs, 6.0, set_score=even))
    np.testing.assert_array_equal(selected, weighing.select(scores, costs, 6.0, set_score=spoils))


def test_who_is_unknown_counts_as_the_average():
    np.testing.assert_allclose(standardised(np.array([1.0, np.nan, 3.0])), [-1.0, 0.0, 1.0])
    np.testing.assert_allclose(standardised(np.array([1.0, 1.0001])), [-1.0, 1.0])
    for values in ([np.nan, np.nan], [0.1 + 0.2, 0.3], [2.0]):
        assert standardised(np.array(values)).tolist() == [0.0] * len(values)


def infos_of(profiles, sizes):
    return [{"update_profile": p, "num_samples": n} for p, n in zip(profiles, sizes, strict=True)]


@given(st.integers(0, 10**6), st.integers(2, 9), st.integers(1, 5), st.floats(0.0, 2.0))
def test_a_set_is_scored_by_its_mean_update_beside_everybodys(seed, number, width, penalty):
    rng = np.random.default_rng(seed)
    profiles, sizes = rng.normal(size=(number, width)), rng.integers(1, 60, number)
    score = UpdateMatching(length_penalty=penalty)
    score.observe([f"c{i}" for i in range(number)], infos_of(profiles, sizes))
    chosen = rng.permutation(number)[: rng.integers(0, number)].tolist()
    candidates = np.array([i for i in range(number) if i not in chosen])
    target = np.average(profiles, axis=0, weights=sizes)
    for value, i in zip(score(chosen, candidates), candidates, strict=True):
        mean = np.average(profiles[[*chosen, i]], axis=0, weights=sizes[[*chosen, i]])
        assert value == pytest.approx(2 * mean @ target - penalty * mean @ mean, abs=1e-9)


@given(st.integers(0, 10**6), st.integers(2, 9))
def test_no_set_matches_everybody_better_than_everybody(seed, number):
    rng = np.random.default_rng(seed)
    profiles, sizes = rng.normal(size=(number, 4)), rng.integers(1, 1000, number)
    score = UpdateMatching(length_penalty=1.0)  # up to a constant, minus the squared distance
    score.observe([f"c{i}" for i in range(number)], infos_of(profiles, sizes))
    order = rng.permutation(number).tolist()
    (everybody,) = score(order[:-1], np.array(order[-1:]))
    for picked in range(number - 1):
        assert score(order[:picked], np.array(order[picked : picked + 1])) <= everybody + 1e-9


@given(st.integers(0, 10**6), st.floats(0.0, 0.99))
def test_what_earlier_rounds_trained_counts_less_with_every_round(seed, memory):
    rng = np.random.default_rng(seed)
    profiles, sizes = rng.normal(size=(5, 3)), rng.integers(1, 60, 5)
    profiles /= np.linalg.norm(profiles, axis=1, keepdims=True)  # of length 1, so that none is scaled
    score, clients = UpdateMatching(memory=memory), list("abcde")
    score.observe(clients, infos_of(profiles, sizes))  # round 0 trains all, and lacked nothing
    rounds = [rng.permutation(5)[: rng.integers(0, 6)] for _ in range(4)]
    for trained in rounds:
        score.observe(clients, infos_of([p if i in trained else None for i, p in enumerate(profiles)], sizes))
    parts, weights, factor = [profiles[0]], [float(sizes[0])], 1.0
    for trained in reversed(rounds):
        if len(trained) == 5:
            break
        factor *= memory if len(trained) else 1.0  # nothing was trained, nothing has to be made up for
        parts += [profiles[i] for i in trained]
        weights += [factor * sizes[i] for i in trained]
    mean = np.average(parts, axis=0, weights=weights)
    expected = 2 * mean @ np.average(profiles, axis=0, weights=sizes) - 0.5 * mean @ mean
    assert score([], np.array([0])) == pytest.approx([expected], abs=1e-9)
    restored = UpdateMatching(memory=memory)
    restored.set_state(score.get_state())
    infos = infos_of([None] * 5, sizes)
    score.observe(clients, infos)
    restored.observe(clients, infos)
    assert score([1], np.array([0, 2])).tolist() == restored([1], np.array([0, 2])).tolist()


@pytest.mark.parametrize("memory", [-0.1, 1.0, float("nan")])
def test_a_memory_that_never_fades_is_refused(memory):
    with pytest.raises(ValueError, match=r"memory is .*; it must be at least 0 and below 1"):
        UpdateMatching(memory=memory)


def test_profiles_are_replaced_and_scaled_as_updates_get_shorter():
    one = np.array([1.0, 0.0])
    score = UpdateMatching()
    clients = list("abcde")
    score.observe(clients, infos_of([4 * one, 4 * one, 2 * one, 4 * one, None], [1] * 5))  # the first have length 4
    score.observe(clients, infos_of([one, None, one, None, one], [1] * 5))  # three later ones: too few to scale by
    profiles = score.get_state()["profiles"]
    assert [profiles[c].tolist() for c in "abcde"] == [[4, 0], [4, 0], [2, 0], [4, 0], [1, 0]]
    score.observe(clients, infos_of([None, 2 * one, None, None, None], [1] * 5))  # lengths 1, 1, 1, 2: median 1
    assert score.get_state()["profiles"]["b"].tolist() == [8.0, 0.0]
    for _ in range(5):
        score.observe(clients, infos_of([one] * 5, [1] * 5))
    assert len(score.get_state()["recent"]) == 20
    for _ in range(4):
        score.observe(clients, infos_of([2 * one] * 5, [1] * 5))  # the last twenty have length 2
    assert score.get_state()["profiles"]["a"].tolist() == [4.0, 0.0]


def test_a_client_without_a_profile_is_neither_preferred_nor_put_back():
    score = UpdateMatching()
    score.observe(["a", "b"], infos_of([None, None], [5, 5]))
    assert np.isnan(score([], np.array([0, 1]))).all()
    score.observe(["a", "b", "c"], infos_of([np.ones(2), -np.ones(2), None], [5, 5, 5]))
    assert np.isnan(score([0], np.array([1, 2]))).tolist() == [False, True]
    known = score([0], np.array([1]))
    assert score([0, 2], np.array([1])) == pytest.approx(known)  # who is unknown adds nothing to the set


@given(st.integers(0, 10**6), st.integers(2, 40), st.data())
def test_a_score_has_the_same_bits_whoever_else_is_a_candidate(seed, number, data):
    """So that a client that has become unaffordable cannot reorder the others."""
    rng = np.random.default_rng(seed)
    profiles = [None if rng.random() < 0.2 else profile for profile in rng.normal(size=(number, 64))]
    score = UpdateMatching()
    score.observe([f"client_{i}" for i in range(number)], infos_of(profiles, rng.integers(1, 9, size=number)))
    chosen = data.draw(st.lists(st.integers(0, number - 1), unique=True, max_size=number - 1))
    left = np.setdiff1d(np.arange(number), chosen)
    some = left[np.array(data.draw(st.lists(st.booleans(), min_size=len(left), max_size=len(left))), dtype=bool)]
    of_all = dict(zip(left, score(chosen, left), strict=True))
    np.testing.assert_array_equal(score(chosen, some), np.array([of_all[i] for i in some]))


@pytest.mark.parametrize("sketch", [np.ones(3), np.array([1.0, np.nan]), np.ones((1, 2)), 1.0])
def test_a_sketch_of_another_size_is_refused_and_changes_nothing(sketch):
    score = UpdateMatching()
    score.observe(["a", "b"], infos_of([np.ones(2), np.zeros(2)], [5, 5]))
    before = score.get_state()
    with pytest.raises(ValueError, match=r"'b' has update_profile .* it must be 2 finite numbers"):
        score.observe(["a", "b"], infos_of([2 * np.ones(2), sketch], [5, 5]))
    np.testing.assert_equal(score.get_state(), before)


@pytest.mark.parametrize(
    ("first", "second", "named"),
    [
        (np.ones(2), np.ones(3), "'b' has .* of shape (3,); it must be 2 finite numbers"),
        (np.ones(2), 1.0, "'b' has .* = 1.0; it must be 2 finite numbers"),
        *(
            (sketch, np.ones(2), "'a' has .*; it must be finite numbers")
            for sketch in (1.0, [], [[1.0]], "sketch", [np.inf])
        ),
    ],
)
def test_first_sketches_are_held_to_each_other_and_a_refusal_changes_nothing(first, second, named):
    score = UpdateMatching()
    with pytest.raises(ValueError, match=named.replace("(", r"\(").replace(")", r"\)")):
        score.observe(["a", "b"], infos_of([first, second], [5, 5]))
    assert score.profile_size is None
    score.observe(["a", "b"], infos_of([np.ones(4), np.zeros(4)], [5, 5]))
    assert score.profile_size == 4


@pytest.mark.parametrize("size", [0, -5, float("nan"), float("inf"), None])
def test_a_data_size_that_would_spoil_the_mean_is_refused_and_changes_nothing(size):
    score = UpdateMatching()
    score.observe(["a", "b"], infos_of([np.ones(2), np.zeros(2)], [5, 5]))
    before = score.get_state()
    with pytest.raises(ValueError, match=r"^'b' has num_samples .*; it must be a finite number above 0$"):
        score.observe(["a", "b"], infos_of([2 * np.ones(2), None], [5, size]))
    np.testing.assert_equal(score.get_state(), before)


def test_first_updates_of_length_zero_are_no_measure_of_others():
    """As of a node that sends the model back unchanged: later profiles are held to the first that has a length."""
    score, clients, one = UpdateMatching(), list("abcd"), np.array([1.0, 0.0])
    score.observe(clients, infos_of([0 * one, None, None, None], [1] * 4))
    assert score.get_state()["first_length"] is None
    score.observe(clients, infos_of([None, 4 * one, None, None], [1] * 4))
    for _ in range(4):
        score.observe(clients, infos_of([None, one, None, one], [1] * 4))
    profiles = score.get_state()["profiles"]
    assert profiles["b"].tolist() == profiles["d"].tolist() == [4.0, 0.0]
    old = UpdateMatching()
    old.set_state({**score.get_state(), "first_length": 0.0})  # as earlier versions wrote it
    assert old.get_state()["first_length"] is None


class FewerOfAKind(SetScore):
    """Prefers workers of the cost of which fewer have been picked."""

    def observe(self, clients, infos):
        assert len(clients) == len(infos) and all(client.startswith("worker_") for client in clients)
        self._costs = np.array([info["cost"] for info in infos])

    def __call__(self, chosen, candidates):
        return np.array([-np.sum(self._costs[list(chosen)] == self._costs[i]) for i in candidates], dtype=float)


def test_an_environment_of_another_kind_has_a_set_score_of_its_own(ray_session):
    config = BippoConfig().environment(Workers, env_config={"num_workers": 6, "rounds": 50, "budget": 3.0})
    algo = config.selection(sampler="odds", set_score=FewerOfAKind, set_weight=50.0).debugging(seed=1).build_algo()
    mixed = 0
    for _ in range(20):
        algo.train()
        acting = [int(agent[-2:]) for agent, action in algo.parallel_env.last_actions.items() if action]
        mixed += {client % 2 for client in acting} == {0, 1}
    # A cheap one and a dear one fill the budget of 3; two cheap ones are followed by a third or nobody.
    assert mixed == 20


def test_a_restored_run_goes_on_as_an_unbroken_one(ray_session, tmp_path):
    keywords = {"num_clients": 8, "train_samples": 20, "test_samples": 10, "budget_share": 0.4, "local_epochs": 1}
    keywords = METHODS["bippo-s"].with_requirements({**keywords, "rounds": 20, "executor": "serial"})
    config = METHODS["bippo-s"].make_config().environment(envs.parallel_env, env_config=keywords).debugging(seed=3)
    algo = config.build_algo()
    for _ in range(5):
        algo.train()
    restored = type(algo).from_checkpoint(algo.save_to_path(tmp_path / "checkpoint"))
    for _ in range(5):
        for each in (algo, restored):
            each.train()
        assert algo.parallel_env.last_round == restored.parallel_env.last_round


@pytest.mark.parametrize(
    "returned",
    [[1.0], None, 1.0, {}, np.zeros((3, 1)), ["1", "2", "3"], [1j, 2, 3], [[1], [2, 3], []], [0.0, np.inf, 1.0]],
)
def test_what_is_not_a_number_for_each_candidate_is_refused_by_name(returned):
    class Odd(SetScore):
        def __call__(self, chosen, candidates):
            return returned

    with pytest.raises(ValueError, match=r"^the set score Odd returned .* for 3 candidates") as caught:
        BudgetSampler("odds", set_weight=1.0).select([0.5] * 3, [1.0] * 3, 3.0, set_score=Odd())
    assert "\n" not in str(caught.value)


@given(st.lists(st.floats(allow_infinity=False), min_size=1, max_size=9))
def test_any_numbers_are_standardised(values):
    z = standardised(np.array(values))
    known = z[~np.isnan(values)]
    assert np.isfinite(z).all() and not z[np.isnan(values)].any() and np.abs(z).max() <= np.sqrt(len(values)) + 1e-6
    assert not known.any() or (abs(known.mean()) < 1e-6 and abs(known.std() - 1) < 1e-6)


@pytest.mark.parametrize("saved_with", [True, False])
def test_a_state_with_and_one_without_a_set_score_do_not_mix(saved_with):
    with_score, without = (
        BudgetSamplerConnector(BudgetSampler("odds", seed=seed), set_score=score)
        for seed, score in ((1, UpdateMatching()), (2, None))
    )
    saved, here = (with_score, without) if saved_with else (without, with_score)
    before = here.get_state()
    with pytest.raises(ValueError, match=r"was saved with(out)? a set score, this is with(out)? one"):
        here.set_state(saved.get_state())
    np.testing.assert_equal(here.get_state(), before)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            lambda state: state["set_score"].pop("profiles"),
            "set score than UpdateMatching: it has no 'profiles'",
        ),
        (lambda state: state["set_score"].pop("past"), "set score than UpdateMatching: it has no 'past'"),
        (lambda state: state["set_score"].update(recent=3), "not iterable"),
        (lambda state: state.update(epsilon=2.0), "epsilon"),
    ],
)
def test_a_state_that_one_part_refuses_changes_nothing(change, message):
    score = UpdateMatching()
    score.observe(["a", "b"], infos_of([np.ones(2), np.zeros(2)], [5, 5]))
    here = BudgetSamplerConnector(BudgetSampler("odds", seed=1), set_score=score)
    before, saved = here.get_state(), BudgetSamplerConnector(BudgetSampler("odds", seed=2), set_score=UpdateMatching())
    change(state := saved.get_state())
    with pytest.raises((ValueError, TypeError), match=message):
        here.set_state(state)
    np.testing.assert_equal(here.get_state(), before)


def test_a_set_score_that_restores_nothing_refuses_a_state_of_another_one():
    saved = BudgetSamplerConnector(BudgetSampler("odds", seed=2), set_score=UpdateMatching())
    here = BudgetSamplerConnector(BudgetSampler("odds", seed=1), set_score=LabelBalance())
    before = here.get_state()
    with pytest.raises(ValueError, match=r"holds .*profiles.*, but LabelBalance restores nothing; use the set score"):
        here.set_state(saved.get_state())
    np.testing.assert_equal(here.get_state(), before)
    here.set_state(before)  # its own, which is empty


def test_other_strategies_and_wrong_arguments_are_refused():
    with pytest.raises(ValueError, match="'odds', this is 'greedy'"):
        BudgetSampler("greedy").select([0.5], [1.0], 1.0, set_score=even)
    with pytest.raises(ValueError, match="length_penalty is -1"):
        UpdateMatching(length_penalty=-1)
    with pytest.raises(ValueError, match=r"info of 'a' has no 'update_profile'.* update_profile_size"):
        UpdateMatching().observe(["a"], [{"num_samples": 3}])
