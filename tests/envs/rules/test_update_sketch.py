"""Sketches of updates: inner products are kept, and infos have those of the clients that trained."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from plain_federation import PlainFederation

import envs
from bippo_rllib.federated.update_profiles import update_profile
from envs.rules.churn import ChurnEvent
from envs.rules.update_sketch import UpdateSketch
from envs.training import models
from envs.training.models import build_model, num_parameters, weight_tensors
from envs.training.update_reports import UpdateReports


def test_inner_products_are_kept_in_the_mean():
    rng = np.random.default_rng(0)
    a, b = rng.normal(size=(2, 1003)).astype(np.float32)
    a += b  # an inner product of about |b|**2
    pairs = [(UpdateSketch(1003, 32, seed).of(a, 1), UpdateSketch(1003, 32, seed).of(b, 1)) for seed in range(400)]
    products = np.array([np.dot(*pair) for pair in pairs])
    spread = np.linalg.norm(a) * np.linalg.norm(b) / np.sqrt(32)
    assert products.mean() == pytest.approx(float(a @ b), abs=4 * spread / np.sqrt(400))
    assert products.std() < 1.5 * spread


@given(st.integers(1, 300), st.integers(1, 40), st.integers(0, 99), st.integers(1, 50))
def test_every_number_is_in_one_bucket_with_its_sign(num_values, size, seed, num_samples):
    """Of unit vectors: a signed unit vector each, buckets being as full as the others but for one."""
    sketch = UpdateSketch(num_values, size, seed)
    units = np.array([sketch.of(unit, 1) for unit in np.eye(num_values, dtype=np.float32)])
    assert units.dtype == np.float32 and units.shape == (num_values, size)
    assert (np.sort(np.abs(units), axis=1)[:, -1] == 1.0).all() and (np.abs(units).sum(axis=1) == 1.0).all()
    filled = np.abs(units).sum(axis=0)[: min(size, num_values)]
    assert filled.max() - filled.min() <= 1.0
    values = np.arange(1.0, num_values + 1, dtype=np.float32)
    np.testing.assert_allclose(sketch.of(values, num_samples), values @ units / num_samples, rtol=1e-5, atol=1e-5)


def small(**fields):
    sizes = {"train_samples": (8, 12, 20, 16), "test_samples": 20, "batch_size": 8, "num_clients": 4}
    return envs.parallel_env(**(sizes | {"budget_share": 1.0, "local_epochs": 2, "executor": "serial"} | fields))


def profiles(infos):
    return {agent: info["update_profile"] for agent, info in infos.items()}


def test_infos_have_the_sketch_of_what_plain_training_changes_per_sample():
    env = small(update_profile_size=6)
    first = profiles(env.reset(seed=5)[1])
    assert all(profile.shape == (6,) and profile.any() for profile in first.values())
    start = build_model("digits_cnn", (1, 8, 8), 10)
    models.FlatWeights(start).set(env.get_state()["weights"])
    seen = profiles(env.step({"client_001": 1, "client_002": 1})[4])
    assert [agent for agent, profile in seen.items() if profile is not None] == ["client_001", "client_002"]
    plain, sketch = PlainFederation(env.config, 5), UpdateSketch(num_parameters(start), 6, 5)
    for client in (1, 2):
        trained = plain.trained(start, client, 1)
        before, after = (np.concatenate([w.numpy().ravel() for w in weight_tensors(m)]) for m in (start, trained))
        expected = sketch.of(after - before, (8, 12, 20, 16)[client])
        np.testing.assert_allclose(seen[f"client_{client:03d}"], expected, rtol=1e-4, atol=1e-7)


def test_they_are_those_of_the_last_round_only_also_after_a_restore():
    env = small(update_profile_size=3, churn=(ChurnEvent(1, 3, "join"),), on_client_failure="drop")
    assert set(profiles(env.reset(seed=1)[1])) == {"client_000", "client_001", "client_002"}
    infos = env.step({"client_000": 1})[4]
    assert [profile is not None for profile in profiles(infos).values()] == [True, False, False, False]
    twin = small(update_profile_size=3, churn=(ChurnEvent(1, 3, "join"),), on_client_failure="drop")
    twin.set_state(pickle.loads(pickle.dumps(env.get_state())))
    after = [each.step({"client_003": 1})[4] for each in (env, twin)]
    assert [profile is not None for profile in profiles(after[0]).values()] == [False, False, False, True]
    np.testing.assert_array_equal(*(infos["client_003"]["update_profile"] for infos in after))
    assert not any(profile is not None for profile in profiles(env.step({})[4]).values())


def test_nothing_is_sketched_unless_asked_for():
    assert "update_profile" not in small().reset(seed=1)[1]["client_000"]
    with pytest.raises(ValueError, match="update_profile_size is -1; it must be a whole number of at least 0"):
        small(update_profile_size=-1)


def test_they_leave_the_federation_as_it_is():
    rounds = []
    for size in (0, 16):
        env = small(update_profile_size=size)
        env.reset(seed=2)
        env.step(dict.fromkeys(env.agents, 1))
        rounds.append(env.last_round)
    assert rounds[0] == rounds[1]


def test_a_server_makes_the_same_profile_of_the_parameters_that_a_client_sends():
    """To the bit, of all but the running statistics of a batch norm."""
    config = small(update_profile_size=6, model="resnet18", num_clients=1, train_samples=10).config
    rng, before = np.random.default_rng(0), build_model("resnet18", (1, 8, 8), 10)
    after = copy.deepcopy(before)
    with torch.no_grad():
        for tensor in weight_tensors(after):
            tensor += torch.from_numpy(rng.normal(size=tensor.shape).astype(np.float32))
    flat = torch.cat([tensor.reshape(-1) for tensor in weight_tensors(after)])
    expected = UpdateReports(config, before, 10).of(weight_tensors(before), flat, 10, seed=5)["update_profile"]
    parameters = [[p.detach().numpy() for p in model.parameters()] for model in (before, after)]
    np.testing.assert_array_equal(update_profile(*parameters, 10, size=6, seed=5), expected)
    joined = [np.concatenate([p.ravel() for p in each]) for each in parameters]
    np.testing.assert_array_equal(update_profile(*joined, 10, size=6, seed=5), expected)


@pytest.mark.parametrize(
    ("after", "num_samples", "message"),
    [
        ([np.zeros(3)], 1, r"shape \(2,\) before and \(3,\) after"),
        ([np.zeros(2), np.zeros(2)], 1, "1 arrays before and 2 after"),
        ([np.full(2, np.nan)], 1, "not finite"),
        ([np.zeros(2)], 0, "num_samples is 0"),
    ],
)
def test_an_update_that_has_no_profile_is_refused(after, num_samples, message):
    with pytest.raises(ValueError, match=message):
        update_profile([np.zeros(2)], after, num_samples)
