"""The network of the digits in matrix products, beside its layers, autograd and the optimiser's kernel."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from envs.config import FederationConfig
from envs.data.partition import Partition
from envs.rng import RoundKey
from envs.training.local_training import train_locally
from envs.training.matrix_training import train_digits_cnn
from envs.training.models import build_model, get_flat
from envs.training.serial_executor import SerialExecutor


@pytest.mark.parametrize(
    ("shape", "count", "num_classes", "batch_size"),
    [((1, 8, 8), 50, 10, 32), ((3, 9, 7), 23, 7, 10), ((2, 2, 3), 5, 3, 1)],
)
def test_learns_what_the_layers_learn(shape, count, num_classes, batch_size):
    """Odd sides, of which pooling leaves out the last pixel; colours; a last batch that is smaller; blank images."""
    generator = torch.Generator().manual_seed(1)
    images = torch.randn(count, *shape, generator=generator)
    images[: count // 3] = -1.0  # where all corners of a window are equal
    images = images.to(memory_format=torch.channels_last)
    labels = torch.randint(0, num_classes, (count,), generator=generator)
    flats = []
    for train in (train_locally, train_digits_cnn):
        model = build_model("digits_cnn", shape, num_classes, seed=3).to(memory_format=torch.channels_last)
        start, rng = get_flat(model), np.random.default_rng(0)
        train(model, images, labels, epochs=3, batch_size=batch_size, lr=0.1, rng=rng)
        flats.append(get_flat(model))
    torch.testing.assert_close(flats[0], flats[1], rtol=0.0, atol=1e-6)
    assert (flats[0] - start).abs().max() > 1e-2


@pytest.fixture(scope="module")
def executor():
    serial = SerialExecutor(FederationConfig(num_clients=4, matrix_training=True))
    ends = np.cumsum([0, 50, 7, 32, 45])
    serial.assign(Partition(tuple(map(np.arange, ends[:-1], ends[1:])), (np.arange(9),) * 4, ((),) * 4))
    return serial


def test_bits_of_a_client_do_not_depend_on_the_others(executor):
    weights, key = get_flat(build_model("digits_cnn", (1, 8, 8), 10, seed=1)), RoundKey(seed=7, episode=0, round=3)
    alone = {client: executor.train(weights, [client], key, epochs=2).total for client in range(4)}
    for clients in ([0, 1, 2, 3], [3, 1, 0, 2]):
        for client, update in executor.train_each(weights, clients, key, epochs=2).items():
            assert torch.equal(update.total, alone[client])


def test_a_diverging_client_is_named(executor):
    weights = get_flat(build_model("digits_cnn", (1, 8, 8), 10, seed=1))
    weights[0] = float("nan")
    with pytest.raises(ValueError, match=r"client 1 diverged in round 4 at lr=0.05: .*not finite.*; lower lr"):
        executor.train(weights, [1, 2], RoundKey(0, 0, 4), epochs=1)
