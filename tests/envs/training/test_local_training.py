"""Local SGD against a plain torch loop, and evaluation against one client at a time."""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise

import numpy as np
import pytest
import torch
from torch.nn import functional

from envs.config import FederationConfig
from envs.data.datasets import load_dataset
from envs.data.partition import Partition
from envs.rng import RoundKey
from envs.training.aggregation import mean
from envs.training.local_training import EVALUATION_BATCH, evaluate, train_locally
from envs.training.models import build_model, get_flat
from envs.training.packing import evaluation_groups
from envs.training.serial_executor import SerialExecutor
from envs.training.torch_threads import _inside, torch_threads


def samples(count, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(count, 1, 8, 8, generator=generator), torch.randint(0, 10, (count,), generator=generator)


def test_equals_a_plain_loop():
    """Two epochs of 23 samples in batches of 10, 10 and 3, weights moved by hand; independent of torch.optim."""
    images, labels = samples(23)
    model, plain = build_model("digits_cnn", (1, 8, 8), 10, seed=5), build_model("digits_cnn", (1, 8, 8), 10, seed=5)
    train_locally(model, images, labels, epochs=2, batch_size=10, lr=0.1, rng=np.random.default_rng(3))

    rng = np.random.default_rng(3)
    for _ in range(2):
        order = rng.permutation(23)
        for start in (0, 10, 20):
            batch = torch.as_tensor(order[start : start + 10])
            log_probs = functional.log_softmax(plain(images[batch]), dim=1)
            loss = -log_probs[torch.arange(len(batch)), labels[batch]].sum() / len(batch)
            gradients = torch.autograd.grad(loss, list(plain.parameters()))
            with torch.no_grad():
                for parameter, gradient in zip(plain.parameters(), gradients, strict=True):
                    parameter -= 0.1 * gradient
    torch.testing.assert_close(get_flat(model), get_flat(plain), rtol=0.0, atol=1e-6)


def test_channels_last_learns_the_same():
    images, labels = samples(30)
    flats = []
    for memory_format in (torch.contiguous_format, torch.channels_last):
        model = build_model("digits_cnn", (1, 8, 8), 10, seed=5).to(memory_format=memory_format)
        resident = images.contiguous(memory_format=memory_format)
        train_locally(model, resident, labels, epochs=1, batch_size=10, lr=0.1, rng=np.random.default_rng(3))
        flats.append(get_flat(model))
    torch.testing.assert_close(flats[0], flats[1], rtol=0.0, atol=1e-5)


def test_evaluation_by_client():
    images, labels = samples(60, seed=2)
    model = build_model("digits_cnn", (1, 8, 8), 10, seed=5)
    sizes = [10, 1, 49]
    accuracies, losses = evaluate(model, images, labels, sizes)
    starts = np.cumsum([0, *sizes])
    for client, (start, end) in enumerate(pairwise(starts)):
        logits = model(images[start:end]).detach()
        correct = sum(int(row.argmax()) == int(label) for row, label in zip(logits, labels[start:end], strict=True))
        assert accuracies[client] == correct / sizes[client]
        assert losses[client] == pytest.approx(functional.cross_entropy(logits, labels[start:end]).item(), rel=1e-6)


def test_evaluation_groups_are_large_and_keep_order():
    sizes = [200] * 7 + [EVALUATION_BATCH * 3, 10]
    groups = evaluation_groups(sizes)
    assert [client for group in groups for client in group] == list(range(9))
    assert groups == [[0, 1], [2, 3], [4, 5], [6], [7], [8]]


@pytest.fixture
def executor():
    serial = SerialExecutor(FederationConfig(num_clients=3, lr=0.1))
    train = tuple(np.arange(start, start + 30) for start in (0, 30, 60))
    test = tuple(np.arange(start, start + 11) for start in (0, 11, 22))
    serial.assign(Partition(train, test, ((),) * 3))
    return serial


@pytest.mark.parametrize("other", [RoundKey(8, 0, 3), RoundKey(7, 1, 3), RoundKey(7, 0, 4)])
def test_every_part_of_the_key_changes_the_shuffle(executor, other):
    weights = get_flat(build_model("digits_cnn", (1, 8, 8), 10, seed=1))
    base = executor.train(weights, [0], RoundKey(7, 0, 3), epochs=1).total
    assert torch.equal(base, executor.train(weights, [0], RoundKey(7, 0, 3), epochs=1).total)
    assert not torch.equal(base, executor.train(weights, [0], other, epochs=1).total)


def test_losses_are_those_of_the_training_samples(executor):
    model = build_model("digits_cnn", (1, 8, 8), 10, seed=1)
    losses = executor.losses(get_flat(model), [2, 0])
    data = load_dataset("digits")
    for loss, start in zip(losses, (60, 0), strict=True):
        images, labels = data.train_inputs[start : start + 30], data.train_labels[start : start + 30]
        logits = model(images.float() / 8.0 - 1.0)
        assert loss == pytest.approx(functional.cross_entropy(logits, labels).item(), rel=1e-5)


def test_a_diverging_client_is_named(executor):
    weights = get_flat(build_model("digits_cnn", (1, 8, 8), 10, seed=1))
    weights[0] = float("nan")
    with pytest.raises(ValueError, match=r"client 1 diverged in round 4 at lr=0.1: .*not finite.*; lower lr"):
        executor.train(weights, [1, 2], RoundKey(0, 0, 4), epochs=1)


def trained(**settings):
    """Flat weights after two epochs of client 0."""
    serial = SerialExecutor(FederationConfig(num_clients=1, **settings))
    serial.assign(Partition((np.arange(40),), (np.arange(10),), ((),)))
    weights = get_flat(build_model("digits_cnn", (1, 8, 8), 10, seed=1))
    result = mean(serial.train(weights, [0], RoundKey(7, 0, 1), epochs=2))
    return weights, result, serial.accuracies(result, [0])


def test_mixed_precision_is_close_and_keeps_float32_weights():
    start, plain, _ = trained()
    _, mixed, accuracy = trained(mixed_precision=True)
    assert mixed.dtype == torch.float32 and 0.0 <= accuracy[0] <= 1.0
    # bfloat16 has 8 significant bits: the way the weights went is the same to about 1 %, and not exactly.
    difference = (mixed - plain).norm() / (plain - start).norm()
    assert 0.0 < difference < 0.05


def test_a_compiled_network_trains_the_same_weights(monkeypatch):
    """The compiler itself takes minutes; what matters is that its network shares the weights of ours."""
    compiled = []

    def compile_eagerly(module):
        compiled.append(module)
        return torch.nn.Sequential(module)

    plain = trained()[1]
    monkeypatch.setattr(torch, "compile", compile_eagerly)
    assert torch.equal(trained(compile=True)[1], plain) and len(compiled) == 1


def test_overlapping_blocks_of_torch_threads_leave_no_number_behind():
    inside, left = threading.Barrier(3, timeout=20), threading.Event()
    seen = {}

    def work(name, number, own, leaves_first):
        if own:
            torch.set_num_threads(own)
        with torch_threads(number):
            inside.wait()
            if not leaves_first:
                left.wait(20)
            with torch_threads(number + 1):
                seen[name, "nested"] = torch.get_num_threads()
            seen[name, "inside"] = torch.get_num_threads()
        left.set()
        seen[name, "after"] = torch.get_num_threads()

    before = torch.get_num_threads()
    torch.set_num_threads(4)
    threads = [
        threading.Thread(target=work, args=("new", 1, None, True)),
        threading.Thread(target=work, args=("late", 2, None, False)),
        threading.Thread(target=work, args=("own", 1, 3, False)),
    ]
    try:
        with torch_threads(1):
            for thread in threads[:2]:
                thread.start()
            while len(_inside) < 3:
                time.sleep(0.001)
            threads[2].start()
            for thread in threads:
                thread.join(30)
        assert seen == {
            **{("new", "nested"): 2, ("new", "inside"): 1, ("new", "after"): 4},
            **{("late", "nested"): 3, ("late", "inside"): 2, ("late", "after"): 4},
            **{("own", "nested"): 2, ("own", "inside"): 1, ("own", "after"): 3},
        }
        with ThreadPoolExecutor(1) as new:
            assert torch.get_num_threads() == new.submit(torch.get_num_threads).result() == 4
    finally:
        torch.set_num_threads(before)
