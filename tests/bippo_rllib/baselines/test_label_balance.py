"""Fed-CBS: the class imbalance of sets, recomputed from samples one by one, and what the federation tells."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import envs
from bippo_rllib.baselines.label_balance import LabelBalance
from envs.data.datasets import load_dataset
from envs.data.partition import Partition
from experiments.report.metrics import method_label
from experiments.report.styles import method_name


def score_of(counts):
    score = LabelBalance()
    score.observe([f"c{i}" for i in range(len(counts))], [{"label_counts": np.array(each)} for each in counts])
    return score


@given(st.integers(0, 10**6), st.integers(2, 8), st.integers(2, 5))
def test_a_candidate_is_scored_by_the_imbalance_of_the_set_with_it(seed, number, classes):
    rng = np.random.default_rng(seed)
    counts = rng.integers(0, 9, (number, classes))
    counts[:, 0] += 1  # nobody without samples
    chosen = rng.permutation(number)[: rng.integers(0, number)].tolist()
    candidates = np.array([i for i in range(number) if i not in chosen])
    everybody = [label for row in counts for label, count in enumerate(row) for _ in range(count)]
    for value, i in zip(score_of(counts)(chosen, candidates), candidates.tolist(), strict=True):
        held = [label for n in (*chosen, i) for label in range(classes) for _ in range(counts[n, label])]
        gaps = [held.count(b) / len(held) - everybody.count(b) / len(everybody) for b in range(classes)]
        assert value == pytest.approx(-sum(gap**2 for gap in gaps), abs=1e-12)


@given(st.integers(0, 10**6), st.integers(2, 7), st.integers(2, 5))
def test_where_all_classes_are_equally_frequent_it_is_the_published_degree(seed, number, classes):
    """By the publication's other form: q'Sq over squares, with S the inner products of label shares, less 1 / B."""
    counts = np.random.default_rng(seed).integers(1, 9, (number, classes))
    counts[-1] = counts.sum(axis=0).max() + 1 + counts[-1] - counts.sum(axis=0)
    sizes, shares = counts.sum(axis=1), counts / counts.sum(axis=1, keepdims=True)
    chosen, candidates = [0], np.arange(1, number)
    for value, i in zip(score_of(counts)(chosen, candidates), candidates.tolist(), strict=True):
        q, a = sizes[[0, i]], shares[[0, i]]
        assert value == pytest.approx(1 / classes - q @ (a @ a.T) @ q / q.sum() ** 2, abs=1e-12)


def test_what_completes_the_labels_wins_and_who_has_no_samples_is_unknown():
    score = score_of([[4, 0, 0], [4, 0, 0], [0, 4, 4], [0, 0, 0]])
    assert np.argmax(score([0], np.array([1, 2]))) == 1
    assert np.isnan(score([], np.array([0, 3]))).tolist() == [False, True]


@pytest.mark.parametrize("counts", [[1, 2], [1, -1, 0], [1, np.nan, 0], 3])
def test_counts_that_are_none_are_refused(counts):
    with pytest.raises(ValueError, match=r"'c1' has label_counts .* it must be 3 numbers of at least 0"):
        score_of([[1, 2, 3], counts])
    with pytest.raises(ValueError, match=r"the info of 'a' has no 'label_counts'.*set with_label_counts"):
        LabelBalance().observe(["a"], [{}])


def test_infos_have_the_labels_as_clients_have_them_right_or_wrong():
    noisy = {"noisy_clients": (1,), "executor": "serial"}
    env = envs.parallel_env(
        num_clients=4, train_samples=30, test_samples=8, budget_j=1.0, with_label_counts=True, **noisy
    )
    for seed in (3, 4):  # wrong labels are drawn anew
        _, infos = env.reset(seed=seed)
        data = load_dataset("digits")
        partition = Partition.of(env.config, data, seed)
        for client, agent in enumerate(env.agents):
            held = partition.noisy_labels[client] if client == 1 else data.train_labels[partition.train[client]]
            assert infos[agent]["label_counts"].tolist() == [list(held).count(label) for label in range(10)]
        infos = env.step({})[4]
        assert all(info["label_counts"].sum() == 30 for info in infos.values())
    assert "label_counts" not in envs.parallel_env(num_clients=4, budget_j=1.0).reset(seed=3)[1]["client_000"]


def test_reports_mark_privileged_information():
    assert (method_label("fedcbs", "lr=0.1"), method_label("cyclic", "")) == ("fedcbs (privileged) lr=0.1", "cyclic")
    assert (method_name("fedcbs"), method_name("greedyfed")) == ("Fed-CBS (privileged)", "GreedyFed")
