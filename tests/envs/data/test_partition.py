"""Who holds which samples: properties over many shapes, and refusals with their numbers."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from envs.data.mcmahan import counts_of_shards, iid_counts
from envs.data.partition import make_partition
from envs.settings.data import PARTITIONS

TRAIN, TEST = np.tile(np.arange(10), 600), np.tile(np.arange(10), 100)


def check_disjoint(partition, train_labels):
    for parts in (partition.train, partition.test):
        together = np.concatenate(parts)
        assert len(np.unique(together)) == len(together)
    for indices, labels in zip(partition.train, partition.labels, strict=True):
        assert set(train_labels[indices].tolist()) == set(labels)


@settings(max_examples=40)
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


@settings(max_examples=80)
@given(
    kind=st.sampled_from([kind for kind in PARTITIONS if kind != "paper"]),
    train_pool=st.lists(st.integers(30, 80), min_size=2, max_size=10),
    test_pool=st.lists(st.integers(12, 40), min_size=10, max_size=10),
    num_clients=st.integers(1, 12),
    train=st.integers(4, 80),
    test=st.integers(1, 40),
    alpha=st.sampled_from([0.02, 0.1, 1.0]),
    shards_per_client=st.integers(1, 4),
)
def test_training_sizes_are_as_asked_for_and_test_sets_as_far_as_the_split_goes(
    kind, train_pool, test_pool, num_clients, train, test, alpha, shards_per_client
):
    num_classes = len(train_pool)
    pools = [np.repeat(np.arange(num_classes), pool[:num_classes]) for pool in (train_pool, test_pool)]
    train, test = min(train, len(pools[0]) // num_clients), min(test, len(pools[1]) // num_clients)
    sizes = [train] * num_clients, [test] * num_clients
    try:
        partition = make_partition(kind, *pools, num_classes, *sizes, alpha=alpha, shards_per_client=shards_per_client)
    except ValueError as error:
        assert kind == "dirichlet_over_clients" and "left a client without samples" in str(error)
        assume(False)
    check_disjoint(partition, pools[0])
    assert sum(map(len, partition.train)) == train * num_clients
    assert kind == "dirichlet_over_clients" or {len(indices) for indices in partition.train} == {train}
    tested = np.stack([np.bincount(pools[1][indices], minlength=num_classes) for indices in partition.test])
    used_up = tested.sum(axis=0) == test_pool[:num_classes]
    for counts, labels in zip(tested, partition.labels, strict=True):
        assert set(np.flatnonzero(counts).tolist()) <= set(labels)
        assert 1 <= counts.sum() <= test
        assert counts.sum() == test or used_up[list(labels)].any()
        # Each class of a test split has a sample for each of up to 12 clients.
        assert test < len(labels) or counts[list(labels)].all()


@settings(max_examples=60)
@given(
    pool=st.lists(st.integers(20, 90), min_size=2, max_size=10),
    num_clients=st.integers(1, 30),
    size=st.integers(1, 60),
    shards_per_client=st.integers(1, 6),
)
def test_shards(pool, num_clients, size, shards_per_client):
    """Every shard begins with a label, and beyond these a client gets one more at each border inside its shards."""
    labels = np.repeat(np.arange(len(pool)), pool)
    size = min(size, len(labels) // num_clients)
    shards_per_client = min(shards_per_client, size)
    counts = counts_of_shards([size] * num_clients, np.array(pool), shards_per_client)
    assert (counts.sum(axis=1) == size).all()
    # What is there of each class is used in proportion, but for what does not divide.
    assert np.abs(counts.sum(axis=0) - np.array(pool) * size * num_clients / len(labels)).max() < 1
    holds = (counts > 0).sum(axis=1)
    assert holds.sum() <= num_clients * shards_per_client + len(pool) - 1
    if -(-size // shards_per_client) <= counts.sum(axis=0).min():  # no shard is larger than a class
        assert holds.max() <= 2 * shards_per_client


@pytest.mark.parametrize(("num_clients", "shards_per_client"), [(20, 2), (10, 3), (100, 2), (5, 4)])
def test_shards_that_divide_every_class_have_one_label_each(num_clients, shards_per_client):
    """As in McMahan et al., where 100 clients get 2 of 200 shards of 300 digits each."""
    train, test = np.tile(np.arange(10), 6000), np.tile(np.arange(10), 1000)
    sizes = [60_000 // num_clients] * num_clients, [100] * num_clients
    partition = make_partition("shards", train, test, 10, *sizes, shards_per_client=shards_per_client)
    check_disjoint(partition, train)
    shard = 60_000 // num_clients // shards_per_client
    for indices, tested in zip(partition.train, partition.test, strict=True):
        counts, of_test = np.bincount(train[indices], minlength=10), np.bincount(test[tested], minlength=10)
        assert (counts % shard == 0).all() and (counts > 0).sum() <= shards_per_client
        assert np.abs(of_test - 100 * counts / counts.sum()).max() < 1  # the mix that it trains on
    assert len(set(partition.labels)) > 1


def test_another_number_of_shards_gives_other_labels_and_all_clients_some():
    few, many = (
        make_partition("shards", TRAIN, TEST, 10, [100] * 20, [10] * 20, shards_per_client=shards) for shards in (1, 20)
    )
    assert {len(labels) for labels in few.labels} == {1}
    assert min(len(labels) for labels in many.labels) >= 6  # of 20 draws from ten labels 8.8 differ on average


@settings(max_examples=30)
@given(pool=st.lists(st.integers(1, 900), min_size=2, max_size=10), num_clients=st.integers(1, 30))
def test_iid_has_everybodys_label_shares_but_for_chance(pool, num_clients):
    """Counts of a draw without replacement: at most 6 standard deviations from the mean, and 1 for those below it."""
    pool = np.array(pool)
    share, size = pool / pool.sum(), pool.sum() // num_clients
    counts = iid_counts([size] * num_clients, pool)
    assert (counts.sum(axis=1) == size).all() and (counts.sum(axis=0) <= pool).all()
    assert (np.abs(counts - size * share) <= 1 + 6 * np.sqrt(size * share * (1 - share))).all()
    if num_clients == 1:
        assert (counts == pool).all()


def test_iid_is_shuffled_and_not_the_same_for_all():
    counts = label_counts("iid", None, clients=20)
    assert len({row.tobytes() for row in counts}) > 10
    assert 2.0 < counts.std() < 4.0  # 100 of 6,000: sqrt(100 * 0.1 * 0.9) = 3


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
    for kind in PARTITIONS:
        one, other, again = (
            make_partition(kind, TRAIN, TEST, 10, [100] * 20, [45] * 20, alpha=0.1, seed=seed) for seed in (7, 28, 7)
        )
        assert one.labels == other.labels
        for pool, split in ((TRAIN, "train"), (TEST, "test")):
            draws = [getattr(partition, split) for partition in (one, other, again)]
            counts = [[np.bincount(pool[part], minlength=10).tolist() for part in parts] for parts in draws]
            assert counts[0] == counts[1]
            assert any((a != b).any() for a, b in zip(*draws[:2], strict=True))
            assert all((a == b).all() for a, b in zip(*draws[::2], strict=True))


def test_paper_partition_uses_classes_about_equally():
    """Fashion-MNIST's 20 clients: 24,000 samples, 2,400 a class on average; one label of a client is at most 1,200."""
    train, test = np.tile(np.arange(10), 6000), np.tile(np.arange(10), 1000)
    partition = make_partition("paper", train, test, 10, [1200] * 20, [200] * 20)
    use = np.bincount(train[np.concatenate(partition.train)], minlength=10)
    assert use.sum() == 24_000 and use.min() >= 2200 and use.max() <= 2600
    assert len({labels for labels in partition.labels[15:]}) == 5


@pytest.mark.parametrize("sizes", [[600, 1200, 1800] * 16, [600] * 16 + [1200] * 16 + [1800] * 16])
def test_48_clients_fit_although_96_percent_of_fashion_mnist_is_wanted(sizes):
    train, test = np.tile(np.arange(10), 6000), np.tile(np.arange(10), 1000)
    partition = make_partition("paper", train, test, 10, sizes, [200] * 48)
    check_disjoint(partition, train)
    assert [len(part) for part in partition.train] == sizes


#: Of class 3 the training split has 20 samples.
FEW = np.array([label for label in TRAIN if label != 3] + [3] * 20)
EMPTY = "left a client without samples in all of 100 .*"


@pytest.mark.parametrize(
    ("kind", "labels", "clients", "sizes", "alpha", "message"),
    [
        ("paper", TRAIN, 10, (700, 10), None, "want 7000 train samples, .* has 6000"),
        ("paper", TRAIN, 10, (100, 150), None, "want 1500 test samples, .* has 1000"),
        ("dirichlet_over_clients", TRAIN, 10, (700, 10), None, "want 7000 train samples, .* has 6000"),
        ("dirichlet_over_labels", TRAIN, 10, (700, 10), None, "want 7000 train samples, .* has 6000"),
        # Five clients hold all labels, and ten one of five others.
        ("paper", FEW, 20, (180, 10), None, "^class 3: .*want 90 train samples, .* has 20; lower .*22 %"),
        ("paper", FEW[:-20], 20, (180, 10), None, "^class 3: .*want 90 train samples, .* has 0; use other data"),
        ("paper", np.arange(2), 1, (1, 1), None, "2 classes; .* at least 3, .*dirichlet_over_labels"),
        ("dirichlet_over_clients", TRAIN, 50, (10, 2), 0.001, f"^alpha=0.001 {EMPTY}; raise alpha or train_samples"),
        ("dirichlet_over_clients", TRAIN, 50, (1, 2), 0.5, f"^alpha=0.5 {EMPTY}; raise train_samples, or"),
        ("dirichlet_over_clients", TRAIN, 50, (1, 2), 1e9, f"^alpha=.* {EMPTY}; raise train_samples, or"),
    ],
)
def test_infeasible_requests_are_refused_with_the_numbers_and_what_helps(kind, labels, clients, sizes, alpha, message):
    test, classes = (TEST, 10) if len(labels) > 2 else (labels, 2)
    more = {} if alpha is None else {"alpha": alpha}
    with pytest.raises(ValueError, match=message):
        make_partition(kind, labels, test, classes, *([size] * clients for size in sizes), **more)


def test_the_advice_of_22_percent_fits():
    partition = make_partition("paper", FEW, TEST, 10, [39] * 20, [10] * 20)
    check_disjoint(partition, FEW)
    assert [len(part) for part in partition.train] == [39] * 20
