"""HiCS-FL: label entropies from updates of the output layer's bias, clusters of them, and draws from clusters."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import entropy, spearmanr

import envs
from bippo_rllib.baselines.hics import HiCS, clustered, distances, label_entropies
from experiments.scenarios import DIGITS


@given(st.integers(0, 10**6), st.integers(1, 6), st.integers(2, 6), st.floats(0.01, 3.0))
def test_entropies_and_distances_by_hand(seed, number, classes, temperature):
    updates = np.random.default_rng(seed).normal(size=(number, classes))
    updates[0] = 0.0
    entropies = label_entropies(updates, temperature)
    for update, found in zip(updates, entropies, strict=True):
        assert found == pytest.approx(entropy(np.exp(update / temperature)), abs=1e-9)
    apart = distances(updates, entropies)
    for i, u in enumerate(updates):
        for j, v in enumerate(updates):
            lengths = np.linalg.norm(u) * np.linalg.norm(v)
            angle = np.arccos(np.clip(u @ v / lengths, -1, 1)) if lengths and i != j else 0.0
            assert apart[i, j] == pytest.approx(angle + 10 * abs(entropies[i] - entropies[j]), abs=1e-6)


@pytest.mark.parametrize("partition", ["paper", "dirichlet_over_labels"])
def test_what_updates_say_follows_the_labels_that_clients_have(partition):
    """The publication's claim, on digits after round 0: with true label counts as the judge."""
    asked = {"with_output_bias": True, "with_label_counts": True, "executor": "serial", "partition": partition}
    env = envs.parallel_env(**{**DIGITS.federation, **asked})
    infos = env.reset(seed=3)[1].values()
    estimated = label_entropies(np.array([info["output_bias_update"] for info in infos], dtype=float), 0.01)
    true = entropy([info["label_counts"] for info in infos], axis=1)
    assert spearmanr(estimated, true)[0] > 0.6


def rounds_of(rule, updates, number=1, costs=None, budget=2.0):
    """Orders of ``number`` rounds in which nobody's update changes."""
    clients = [f"c{i}" for i in range(len(updates))]
    infos = [{"output_bias_update": update, "num_samples": 10 + i} for i, update in enumerate(updates)]
    costs = np.ones(len(updates)) if costs is None else costs
    rule.observe(clients, infos)
    return [rule.order(clients, infos, costs, budget) for _ in range(number)]


#: Two balanced clients, and two of one label each.
TWO_KINDS = [np.zeros(3), np.zeros(3), np.array([1.0, -0.5, -0.5]), np.array([1.0, -0.5, -0.5])]


def test_balanced_clusters_come_first_and_all_are_equal_in_the_end():
    # Entropies ln 3 and 0, so with gamma 2 in round 0 of 10 the balanced cluster has odds 3 ** 2 = 9 to 1.
    firsts = Counter(rounds_of(HiCS(10, gamma=2.0, seed=seed), TWO_KINDS)[0][0] for seed in range(500))
    assert (firsts[0] + firsts[1]) / 500 == pytest.approx(0.9, abs=0.05)
    assert firsts[0] / (firsts[0] + firsts[1]) == pytest.approx(10 / 21, abs=0.09)  # 10 and 11 samples
    late: Counter[bool] = Counter()
    for seed in range(300):
        rule = HiCS(10, gamma=2.0, seed=seed)
        rule.set_state({**rule.get_state(), "round": 50})
        late[rounds_of(rule, TWO_KINDS)[0][0] < 2] += 1
    assert late[True] / 300 == pytest.approx(0.5, abs=0.11)


def test_clusters_are_of_a_kind_and_everybody_is_ordered_once():
    rows = distances(np.stack(TWO_KINDS), label_entropies(np.stack(TWO_KINDS), 0.01))
    first, second, third, fourth = clustered(rows, 2)
    assert first == second != third == fourth
    for order in rounds_of(HiCS(5, seed=1), TWO_KINDS, 9):
        assert sorted(order) == [0, 1, 2, 3]
    assert sorted(rounds_of(HiCS(5, seed=1), TWO_KINDS[:1])[0]) == [0]


def test_who_has_no_update_comes_first_and_the_last_update_is_kept():
    rule = HiCS(5, seed=0)
    assert set(rounds_of(rule, [*TWO_KINDS, None, None])[0][:2]) == {4, 5}
    assert sorted(rounds_of(rule, [None] * 6)[0][:2]) == [4, 5]  # the others are known from the round before
    copy = HiCS(5, seed=9)
    copy.set_state(rule.get_state())
    assert rounds_of(rule, [None] * 6, 4) == rounds_of(copy, [None] * 6, 4)


def test_what_is_missing_or_wrong_is_named():
    with pytest.raises(ValueError, match=r"the info of 'a' has no 'output_bias_update'.* set with_output_bias"):
        HiCS(5).observe(["a"], [{"num_samples": 3}])
    with pytest.raises(ValueError, match="temperature is 0"):
        HiCS(5, temperature=0.0)
    with pytest.raises(ValueError, match="rounds is 0"):
        HiCS(0)
