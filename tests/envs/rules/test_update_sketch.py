"""Sketches of updates: inner products are kept, and a server makes the same ones."""

from __future__ import annotations

import copy

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from bippo_rllib.federated.update_profiles import update_profile
from envs.config import FederationConfig
from envs.rules.update_sketch import UpdateSketch
from envs.training.models import build_model, weight_tensors
from envs.training.update_reports import UpdateReports


def test_inner_products_are_kept_in_the_mean():
    rng = np.random.default_rng(0)
    a, b = rng.normal(size=(2, 1003)).astype(np.float32)
    a += b  # an inner product of about |b|**2
    pairs = [
        (UpdateSketch(1003, 32, seed).sketch(a, 1), UpdateSketch(1003, 32, seed).sketch(b, 1)) for seed in range(400)
    ]
    products = np.array([np.dot(*pair) for pair in pairs])
    spread = np.linalg.norm(a) * np.linalg.norm(b) / np.sqrt(32)
    assert products.mean() == pytest.approx(float(a @ b), abs=4 * spread / np.sqrt(400))
    assert products.std() < 1.5 * spread


@given(st.integers(1, 300), st.integers(1, 40), st.integers(0, 99), st.integers(1, 50))
def test_every_number_is_in_one_bucket_with_its_sign(num_values, size, seed, num_samples):
    """Of unit vectors: a signed unit vector each, buckets being as full as the others but for one."""
    sketch = UpdateSketch(num_values, size, seed)
    units = np.array([sketch.sketch(unit, 1) for unit in np.eye(num_values, dtype=np.float32)])
    assert units.dtype == np.float32 and units.shape == (num_values, size)
    assert (np.sort(np.abs(units), axis=1)[:, -1] == 1.0).all() and (np.abs(units).sum(axis=1) == 1.0).all()
    filled = np.abs(units).sum(axis=0)[: min(size, num_values)]
    assert filled.max() - filled.min() <= 1.0
    values = np.arange(1.0, num_values + 1, dtype=np.float32)
    np.testing.assert_allclose(sketch.sketch(values, num_samples), values @ units / num_samples, rtol=1e-5, atol=1e-5)


def test_a_server_makes_the_same_profile_of_the_parameters_that_a_client_sends():
    """To the bit, of all but the running statistics of a batch norm."""
    config = FederationConfig(update_profile_size=6, model="resnet18", num_clients=1, train_samples=10)
    rng, before = np.random.default_rng(0), build_model("resnet18", (1, 8, 8), 10)
    after = copy.deepcopy(before)
    with torch.no_grad():
        for tensor in weight_tensors(after):
            tensor += torch.from_numpy(rng.normal(size=tensor.shape).astype(np.float32))
    flat = torch.cat([tensor.reshape(-1) for tensor in weight_tensors(after)])
    expected = UpdateReports(config, before, 10).report(weight_tensors(before), flat, 10, seed=5)["update_profile"]
    parameters = [[p.detach().numpy() for p in model.parameters()] for model in (before, after)]
    np.testing.assert_array_equal(update_profile(*parameters, 10, size=6, seed=5), expected)
    joined = [np.concatenate([p.ravel() for p in each]) for each in parameters]
    np.testing.assert_array_equal(update_profile(*joined, 10, size=6, seed=5), expected)


@pytest.mark.parametrize(
    ("after", "num_samples", "message"),
    [
        ([np.zeros(3)], 1, r"shape \(2,\) before and \(3,\) after"),
        ([np.zeros(2), np.zeros(2)], 1, "1 arrays before and 2 after"),
        *(([np.full(2, value)], 1, "not finite") for value in (np.nan, np.inf)),
        ([np.zeros(2)], 0, "num_samples is 0"),
    ],
)
def test_an_update_that_has_no_profile_is_refused(after, num_samples, message):
    with pytest.raises(ValueError, match=message):
        update_profile([np.zeros(2)], after, num_samples)


def test_an_update_whose_sums_do_not_fit_is_refused_and_so_is_none_at_all():
    with pytest.raises(ValueError, match="too long for float32"):
        update_profile([np.zeros(10_000)], [np.full(10_000, 3e38)], 1)
    for nothing in ([], [np.zeros(0)]):
        with pytest.raises(ValueError, match="no parameters"):
            update_profile(nothing, nothing, 1)
