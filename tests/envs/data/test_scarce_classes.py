"""Test sets where the test split lacks samples of some classes: who gets how many, and when it is refused."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from envs.config import FederationConfig
from envs.data.class_counts import in_proportion
from envs.data.datasets import load_dataset
from envs.data.partition import Partition, make_partition
from envs.data.scarce_classes import fit_to_split
from envs.settings.data import PARTITIONS


@pytest.mark.parametrize(
    ("weights", "total", "expected"),
    [
        ([10, 5, 1], 16, [10, 5, 1]),
        # 5, 2.5 and 0.5: the remainder goes to the first of the equal ones, and a sample of the largest to the last.
        ([10, 5, 1], 8, [4, 3, 1]),
        ([98, 1, 1], 10, [8, 1, 1]),
        ([1, 0, 1], 4, [2, 0, 2]),
        ([3, 2, 2, 2], 2, [1, 1, 0, 0]),
    ],
)
def test_in_proportion_and_none_without(weights, total, expected):
    assert in_proportion(np.array(weights), total).tolist() == expected


@settings(max_examples=60)
@given(weights=st.lists(st.integers(0, 50), min_size=1, max_size=12).filter(any), total=st.integers(0, 200))
def test_in_proportion_never_leaves_one_without_who_could_have_some(weights, total):
    counts = in_proportion(np.array(weights), total)
    assert counts.sum() == total and (counts[np.array(weights) == 0] == 0).all()
    assert (counts > 0).sum() == min(total, np.count_nonzero(weights))
    if total <= sum(weights):
        assert (counts <= weights).all()


@settings(max_examples=60)
@given(data=st.data(), num_clients=st.integers(1, 5), num_classes=st.integers(1, 4))
def test_a_sample_for_every_client_is_found_where_there_is_one(data, num_clients, num_classes):
    """Compared with all ways to give each client one of its labels."""
    row = st.lists(st.integers(0, 4), min_size=num_classes, max_size=num_classes).filter(any)
    wanted = np.array(data.draw(st.lists(row, min_size=num_clients, max_size=num_clients)))
    more = st.lists(st.booleans(), min_size=num_classes, max_size=num_classes)
    held = (wanted > 0) | np.array(data.draw(st.lists(more, min_size=num_clients, max_size=num_clients)))
    available = np.array(data.draw(st.lists(st.integers(1, 4), min_size=num_classes, max_size=num_classes)))
    ways = itertools.product(*(np.flatnonzero(row) for row in held))
    if not any((np.bincount(way, minlength=num_classes) <= available).all() for way in ways):
        with pytest.raises(ValueError, match=rf"of {num_clients} clients have no test sample, .*; lower num_clients"):
            fit_to_split(wanted, held, available)
        return
    counts = fit_to_split(wanted, held, available)
    assert (counts.sum(axis=0) <= available).all() and (counts[~held] == 0).all() and (counts >= 0).all()
    assert (counts.sum(axis=1) >= 1).all() and (counts.sum(axis=1) <= wanted.sum(axis=1)).all()
    if (wanted.sum(axis=0) <= available).all():
        assert (counts == wanted).all()


def test_a_client_of_one_scarce_label_gets_it_from_one_of_several_labels():
    """One sample of class 0, wanted by both; client 1 holds class 1 too."""
    held = np.array([[True, False], [True, True]])
    assert fit_to_split(np.array([[1, 0], [5, 0]]), held, np.array([1, 9])).tolist() == [[1, 0], [0, 1]]


def test_a_class_that_the_test_split_lacks_is_named():
    train, test = np.tile(np.arange(4), 50), np.array([0, 1, 2] * 50)
    with pytest.raises(ValueError, match=r"^class 3: the clients want .* test samples, .* has 0; use other data$"):
        make_partition("iid", train, test, 4, [20] * 4, [12] * 4)


@pytest.mark.parametrize("alpha", [0.05, 0.1, 0.5])
@pytest.mark.parametrize("partition", [kind for kind in PARTITIONS if kind.startswith("dirichlet")])
def test_any_alpha_works_on_digits_with_the_sizes_of_the_scenario(partition, alpha):
    data = load_dataset("digits")
    shares = Partition.of(FederationConfig(partition=partition, alpha=alpha), data, seed=7)
    labels = data.test_labels.numpy()
    sizes = [len(indices) for indices in shares.test]
    assert min(sizes) >= 16 and max(sizes) == 20 and sum(sizes) >= 385
    for indices, held in zip(shares.test, shares.labels, strict=True):
        assert set(labels[indices].tolist()) == set(held)
