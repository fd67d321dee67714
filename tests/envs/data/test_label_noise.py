"""Clients with wrong training labels: how many, which, whose, and that nothing else changes."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tiny_data import write_image_folders
from torch.nn import functional

import envs
from envs.config import FederationConfig
from envs.data.client_samples import gather
from envs.data.datasets import load_dataset
from envs.data.label_noise import noisy_labels
from envs.data.partition import Partition
from envs.settings.data import PARTITIONS
from envs.training.models import FlatWeights, build_model

TINY = {"num_clients": 4, "train_samples": 20, "test_samples": 10, "rounds": 2, "budget_share": 1.0, "seed": 3}


def dealt(seed: int = 3, **fields: object) -> Partition:
    config = FederationConfig(**{**TINY, **fields})
    return Partition.of(config, load_dataset(config.dataset, config.data_dir), seed)


@given(st.integers(1, 60), st.floats(0.0, 1.0), st.integers(0, 9), st.integers(0, 9))
def test_exactly_the_share_is_drawn_anew(count, share, seed, client):
    labels = np.arange(count)
    # With 2**40 classes no draw hits the true label, or that of another seed or client.
    noisy = noisy_labels(labels, share, 2**40, seed, client)
    assert (noisy != labels).sum() == round(share * count) and (labels == np.arange(count)).all()
    assert (noisy == noisy_labels(labels, share, 2**40, seed, client)).all()
    for other in ((seed + 1, client), (seed, client + 1)):
        assert (noisy == noisy_labels(labels, share, 2**40, *other)).all() == (round(share * count) == 0)


def test_drawn_uniformly_over_all_classes():
    counts = np.bincount(noisy_labels(np.zeros(10_000, dtype=np.int64), 1.0, 10, seed=0, client=0))
    # Of 10,000 draws 1,000 are expected per class, with a standard deviation of 30.
    assert counts.shape == (10,) and abs(counts - 1000).max() < 120


@pytest.mark.parametrize("partition", PARTITIONS)
def test_training_labels_of_the_named_and_nothing_else(partition):
    data = load_dataset("digits")
    clean, noisy = dealt(partition=partition), dealt(partition=partition, noisy_clients=(1, 3), label_noise=0.5)
    before, after = gather(data, clean), gather(data, noisy)
    assert (before.test.labels == after.test.labels).all() and (before.train.inputs == after.train.inputs).all()
    assert clean.labels == noisy.labels
    ends = np.cumsum(before.train.sizes)[:-1]
    for client, (old, new) in enumerate(zip(*(np.split(s.train.labels, ends) for s in (before, after)), strict=True)):
        true = data.train_labels.numpy()[clean.train[client]]
        assert (old == true).all() and sorted(clean.train[client]) == sorted(noisy.train[client])
        expected = noisy_labels(true, 0.5, 10, 3, client) if client in (1, 3) else true
        assert (new == expected).all()
        assert (new != true).any() == (client in (1, 3))


def test_who_is_noisy_does_not_depend_on_the_seed_nor_a_draw_on_who_else_is():
    one, both, turned = (dealt(noisy_clients=clients) for clients in ((1,), (1, 3), (3, 1)))
    assert (one.noisy_labels[1] == both.noisy_labels[1]).all()
    assert all((both.noisy_labels[client] == turned.noisy_labels[client]).all() for client in (1, 3))
    other = dealt(seed=4, noisy_clients=(1, 3))
    assert set(other.noisy_labels) == {1, 3} and not (other.noisy_labels[3] == both.noisy_labels[3]).all()


def test_image_folders_have_noisy_clients_too(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    write_image_folders(tmp_path / "data")
    fields = {"dataset": "image_folder", "data_dir": str(tmp_path / "data"), "train_samples": 4, "test_samples": 2}
    partition = dealt(partition="dirichlet_over_labels", noisy_clients=(2,), **fields)
    samples = gather(load_dataset("image_folder", tmp_path / "data"), partition)
    assert (samples.train.labels[8:12] == partition.noisy_labels[2]).all()


@pytest.mark.parametrize(
    "fields", [{}, {"churn": (envs.ChurnEvent(1, 3, "join"),)}, {"partition": "dirichlet_over_clients"}]
)
def test_rounds_are_those_of_the_clean_federation_until_a_noisy_client_trains(fields):
    clean, noisy = (
        envs.parallel_env(**{**TINY, **fields, "rounds": 3, "noisy_clients": clients, "executor": "serial"})
        for clients in ((), (3,))
    )
    results = []
    for env in (clean, noisy):
        _, infos = env.reset(seed=1)
        results.append([env.get_state()["weights"], [info["cost"] for info in infos.values()]])
        for clients in ((0, 1), (0, 3)):
            env.step({agent: int(int(agent[-3:]) in clients) for agent in env.agents})
            results[-1].append(env.last_round)
    (start, costs, *rounds), (noisy_start, noisy_costs, *noisy_rounds) = results
    assert costs == noisy_costs
    at_start = 3 in clean.get_state()["live"] and not fields.get("churn")
    # A client that is live at the start trains in round 0; one that joins later does not, so all is equal until then.
    assert torch.equal(start, noisy_start) != at_start
    assert (rounds[0] == noisy_rounds[0]) != at_start
    assert rounds[1].accuracies != noisy_rounds[1].accuracies


def test_losses_are_on_the_noisy_labels_and_accuracies_on_the_true_ones():
    config = FederationConfig(**TINY, noisy_clients=(0, 2), label_noise=0.7, with_loss=True, executor="serial")
    env = envs.FederatedRounds(config)
    env.reset(seed=3)
    infos = env.step({"client_000": 1, "client_001": 1})[4]
    data, partition = load_dataset("digits"), Partition.of(config, load_dataset("digits"), 3)
    model = build_model("digits_cnn", data.input_shape, 10)
    FlatWeights(model).set(env.get_state()["weights"])
    for client, info in enumerate(infos.values()):
        images, true = data.train_inputs[partition.train[client]].float() / 8 - 1, data.train_labels.numpy()
        labels = torch.from_numpy(partition.noisy_labels.get(client, true[partition.train[client]]))
        with torch.no_grad():
            assert info["loss"] == pytest.approx(functional.cross_entropy(model(images), labels).item(), rel=1e-5)
            right = model(data.test_inputs[partition.test[client]].float() / 8 - 1).argmax(dim=1)
        assert info["accuracy"] == (right == data.test_labels[partition.test[client]]).double().mean().item()


@pytest.mark.parametrize(
    ("fields", "named"),
    [
        ({"noisy_clients": 3}, "noisy_clients is 3"),
        ({"noisy_clients": (20,)}, "clients go from 0 to 19"),
        ({"noisy_clients": (-1,)}, "noisy_clients is -1"),
        ({"noisy_clients": (1, 2, 1)}, r"\(1, 2, 1\)"),
        ({"label_noise": 1.1}, "label_noise is 1.1"),
    ],
)
def test_what_cannot_be_is_refused(fields, named):
    with pytest.raises(ValueError, match=named):
        FederationConfig(**fields)
    assert dealt().noisy_labels == {} and FederationConfig().label_noise == 1.0
