"""Sizes of the networks against the paper, and flat weights."""

from __future__ import annotations

import pytest
import torch

from envs.training.models import FlatWeights, build_model, get_flat, num_parameters, weight_tensors


@pytest.mark.parametrize(
    ("name", "shape", "parameters"),
    [
        # conv 8@3x3: 80, fc 8*4*4 -> 10: 1,290
        ("digits_cnn", (1, 8, 8), 1_370),
        # 20*26 + 50*501 + 500*801 + 10*501
        ("cnn", (1, 28, 28), 431_080),
        # 16*(27+1) + 32*(144+1) + 64*(288+1) + 10*(1,024+1)
        ("cnn_small_color", (3, 32, 32), 33_834),
        ("resnet18", (3, 32, 32), 11_173_962),
    ],
)
def test_parameter_counts(name, shape, parameters):
    model = build_model(name, shape, 10)
    assert num_parameters(model) == parameters
    assert model(torch.zeros(2, *shape)).shape == (2, 10)


def test_initialisation_is_keyed_and_leaves_the_global_generator_alone():
    before = torch.random.get_rng_state()
    one, same, other = (get_flat(build_model("cnn", (1, 28, 28), 10, seed)) for seed in (1, 1, 2))
    assert torch.equal(torch.random.get_rng_state(), before)
    assert torch.equal(one, same) and not torch.equal(one, other)


def test_flat_weights_survive_a_round_trip_in_channels_last():
    model = build_model("resnet18", (3, 32, 32), 10, seed=1)
    with torch.no_grad():
        for number, tensor in enumerate(weight_tensors(model)):
            tensor.fill_(number)
    flat = get_flat(model)
    # 9,600 batch-norm statistics (running mean and variance of 4,800 channels) beside the parameters
    assert flat.shape == (11_173_962 + 9_600,)
    target = build_model("resnet18", (3, 32, 32), 10, seed=2).to(memory_format=torch.channels_last)
    FlatWeights(target).set(flat)
    assert all((tensor == number).all() for number, tensor in enumerate(weight_tensors(target)))
    assert target.conv1.weight.is_contiguous(memory_format=torch.channels_last)
    assert torch.equal(get_flat(target), flat)


def test_weights_in_channels_last_keep_their_logical_order():
    model = build_model("digits_cnn", (3, 8, 8), 10, seed=1)
    flat = get_flat(model)
    assert torch.equal(get_flat(model.to(memory_format=torch.channels_last)), flat)


@pytest.mark.parametrize(
    ("name", "shape", "message"),
    [
        *((name, shape, r"at least \d+ pixels") for name, shape in (("cnn", (1, 8, 8)), ("resnet18", (3, 4, 4)))),
        ("cnn_small_color", (3, 4, 4), r"at least \d+ pixels"),
        ("vgg", (3, 32, 32), "digits_cnn, cnn, cnn_small_color, resnet18"),
    ],
)
def test_too_small_images_and_unknown_models_are_refused(name, shape, message):
    with pytest.raises(ValueError, match=f"'{name}'.*{message}"):
        build_model(name, shape, 10)
