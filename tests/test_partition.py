"""Who holds which samples: properties over many shapes, and refusals with their numbers."""

from __future__ import annotations

import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from envs.data.partition import make_partition

TRAIN, TEST = np.tile(np.arange(10), 600), np.tile(np.arange(10), 100)


def check_disjoint(partition, train_labels):
    for parts in (partition.train, partition.test):
        together = np.concatenate(parts)
        assert len(np.unique(together)) == len(together)
    for indices, labels in zip(partition.train, partition.labels, strict=True):
        assert set(train_labels[indices].tolist()) == set(labels)


@settings(max_examples=40, deadline=None)
@given(
    num_clients=st.integers(1, 60),
    num_classes=st.integers(3, 12),
    train=st.integers(12, 60),
    test=st.integers(12, 24),
    seed=st.integers(0, 9),
)
def test_paper_partition(num_clients, num_classes, train, test, seed):
    train_labels = np.tile(np.arange(num_classes), 4000 // num_classes)
    test_labels = np.tile(np.arange(num_classes), 1600 // num_classes)
    sizes = [train] * num_clients, [test] * num_clients
    partition = make_partition("paper", train_labels, test_labels, num_classes, *sizes, seed=seed)
    check_disjoint(partition, train_labels)
    for client, labels in enumerate(partition.labels):
        assert len(labels) == (num_classes, 3, 2, 1)[4 * client // num_clients]
        for pool, indices, size in ((train_labels, partition.train, train), (test_labels, partition.test, test)):
            counts = np.bincount(pool[indices[client]], minlength=num_classes)[list(labels)]
            assert counts.sum() == size == len(indices[client])
            assert counts.max() - counts.min() <= 1


@settings(max_examples=25, deadline=None)
@given(
    kind=st.sampled_from(["dirichlet_over_clients", "dirichlet_over_labels"]),
    num_clients=st.integers(1, 30),
    alpha=st.floats(0.3, 100.0),
)
def test_dirichlet_partitions(kind, num_clients, alpha):
    sizes = [100] * num_clients, [10] * num_clients
    partition = make_partition(kind, TRAIN, TEST, 10, *sizes, alpha=alpha)
    check_disjoint(partition, TRAIN)
    assert sum(map(len, partition.train)) == 100 * num_clients
    assert all(len(indices) == 10 for indices in partition.test)
    if kind == "dirichlet_over_labels":
        assert all(len(indices) == 100 for indices in partition.train)


def label_counts(kind, alpha, clients=10, samples=100):
    partition = make_partition(kind, TRAIN, TEST, 10, [samples] * clients, [10] * clients, alpha=alpha)
    return np.stack([np.bincount(TRAIN[indices], minlength=10) for indices in partition.train])


def test_the_two_dirichlet_meanings_differ():
    """Over clients every class is spread fully and sizes differ; over labels sizes are equal and class sums differ."""
    over_clients, over_labels = (label_counts(f"dirichlet_over_{axis}", 0.3) for axis in ("clients", "labels"))
    assert (over_clients.sum(axis=0) == 100).all() and np.ptp(over_clients.sum(axis=1)) > 20
    assert (over_labels.sum(axis=1) == 100).all() and np.ptp(over_labels.sum(axis=0)) > 20


@pytest.mark.parametrize("kind", ["dirichlet_over_clients", "dirichlet_over_labels"])
def test_alpha_rules_the_skew(kind):
    # Nearly equal shares of 10 for a large alpha; for a small one most of what a class or client has is in few cells.
    assert np.abs(label_counts(kind, 1e6) - 10).max() <= 1
    assert label_counts(kind, 0.3).max() > 40


def test_over_labels_uses_a_split_up_completely():
    """600 of each class and 6,000 wanted: what a client cannot get of one class it takes of the others."""
    assert (label_counts("dirichlet_over_labels", 0.3, clients=20, samples=300).sum(axis=0) == 600).all()


def test_labels_and_sizes_do_not_depend_on_the_seed_but_the_draw_does():
    for kind in ("paper", "dirichlet_over_clients", "dirichlet_over_labels"):
        one, other = (make_partition(kind, TRAIN, TEST, 10, [100] * 20, [10] * 20, seed=seed) for seed in (7, 28))
        again = make_partition(kind, TRAIN, TEST, 10, [100] * 20, [10] * 20, seed=7)
        assert one.labels == other.labels
        assert [len(part) for part in one.train] == [len(part) for part in other.train]
        assert any((a != b).any() for a, b in zip(one.train, other.train, strict=True))
        assert all((a == b).all() for a, b in zip(one.train, again.train, strict=True))


def test_paper_partition_uses_classes_about_equally():
    """Fashion-MNIST's 20 clients: 24,000 samples, 2,400 a class on average; one label of a client is at most 1,200."""
    train, test = np.tile(np.arange(10), 6000), np.tile(np.arange(10), 1000)
    partition = make_partition("paper", train, test, 10, [1200] * 20, [200] * 20)
    use = np.bincount(train[np.concatenate(partition.train)], minlength=10)
    assert use.sum() == 24_000 and use.min() >= 2200 and use.max() <= 2600
    assert len({labels for labels in partition.labels[15:]}) == 5


@pytest.mark.parametrize("sizes", [[600, 1200, 1800] * 16, list(np.repeat([600, 1200, 1800], 16))])
def test_48_clients_fit_although_96_percent_of_fashion_mnist_is_wanted(sizes):
    train, test = np.tile(np.arange(10), 6000), np.tile(np.arange(10), 1000)
    partition = make_partition("paper", train, test, 10, [int(size) for size in sizes], [200] * 48)
    check_disjoint(partition, train)
    assert [len(part) for part in partition.train] == sizes


@pytest.mark.parametrize(
    ("kind", "train", "test", "message"),
    [
        ("paper", 700, 10, "want 7000 train samples, the train split has 6000"),
        ("paper", 100, 150, "want 1500 test samples, the test split has 1000"),
        ("dirichlet_over_clients", 700, 10, "want 7000 train samples, the train split has 6000"),
        ("dirichlet_over_labels", 700, 10, "want 7000 train samples, the train split has 6000"),
    ],
)
def test_infeasible_requests_are_refused_with_the_numbers(kind, train, test, message):
    with pytest.raises(ValueError, match=message):
        make_partition(kind, TRAIN, TEST, 10, [train] * 10, [test] * 10)


@pytest.mark.parametrize(
    ("kept", "fix"), [(20, "lower test_samples or num_clients to some 25 %"), (0, "use other data")]
)
def test_what_a_class_lacks_is_said_with_what_would_fit(kept, fix):
    """20 clients take each class; of class 3 the test split has a quarter of what they want, or none."""
    few = np.array([label for label in TEST if label != 3] + [3] * kept)
    arguments = ("dirichlet_over_labels", TRAIN, few, 10, [20] * 20)
    with pytest.raises(ValueError, match=rf"^class 3: the clients want 80 test samples, .* has {kept}; {fix}"):
        make_partition(*arguments, [40] * 20, alpha=1e6)
    if kept:
        make_partition(*arguments, [10] * 20, alpha=1e6)


def test_fewer_than_three_classes_are_refused():
    with pytest.raises(ValueError, match=r"has 2 classes; .* at least 3, env.partition=dirichlet_over_labels takes"):
        make_partition("paper", np.array([0, 1]), np.array([0, 1]), 2, [1], [1])


@pytest.mark.parametrize(
    ("samples", "alpha", "fix"),
    [
        (10, 0.001, "raise alpha or train_samples, or lower num_clients"),
        (1, 0.5, "raise train_samples, or lower num_clients"),
        (1, 1e9, "raise train_samples, or lower num_clients"),
    ],
)
def test_an_alpha_that_leaves_clients_empty_is_refused_with_what_helps(samples, alpha, fix):
    with pytest.raises(
        ValueError, match=rf"^alpha={re.escape(str(alpha))} left a client without samples in all of 100 .*; {fix}$"
    ):
        make_partition("dirichlet_over_clients", TRAIN, TEST, 10, [samples] * 50, [2] * 50, alpha=alpha)
