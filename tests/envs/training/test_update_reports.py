"""What is asked about updates: the output layer's bias and the length, as plain training has them."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from plain_federation import PlainFederation
from torch import nn

import envs
from envs.training import models
from envs.training.models import build_model, output_bias, weight_tensors

ASKED = {"with_output_bias": True, "with_update_norm": True}
SMALL = {"train_samples": (8, 12, 20, 16), "test_samples": 20, "batch_size": 8, "num_clients": 4, "budget_share": 1.0}


def test_infos_have_what_plain_training_changes():
    env = envs.parallel_env(**SMALL, **ASKED, local_epochs=2, executor="serial")
    _, infos = env.reset(seed=5)
    assert all(info["output_bias_update"].shape == (10,) and info["update_norm"] > 0 for info in infos.values())
    start = build_model("digits_cnn", (1, 8, 8), 10)
    models.FlatWeights(start).set(env.get_state()["weights"])
    infos = env.step({"client_001": 1, "client_002": 1})[4]
    assert infos["client_000"]["output_bias_update"] is infos["client_000"]["update_norm"] is None
    plain = PlainFederation(env.config, 5)
    for client in (1, 2):
        trained, info = plain.trained(start, client, 1), infos[f"client_{client:03d}"]
        bias = trained[-1].bias - start[-1].bias
        np.testing.assert_allclose(info["output_bias_update"], bias.detach().numpy(), rtol=1e-4, atol=1e-7)
        pairs = zip(weight_tensors(trained), weight_tensors(start), strict=True)
        squares = [(after - before).double().square().sum() for after, before in pairs]
        assert info["update_norm"] == pytest.approx(float(sum(squares)) ** 0.5, rel=1e-5)


def test_they_leave_the_federation_as_it_is_and_are_absent_unless_asked_for():
    rounds = []
    for asked in ({}, ASKED):
        env = envs.parallel_env(**SMALL, **asked, executor="serial")
        _, infos = env.reset(seed=2)
        assert {"output_bias_update", "update_norm"}.isdisjoint(infos["client_000"]) is not bool(asked)
        env.step(dict.fromkeys(env.agents, 1))
        rounds.append(env.last_round)
    assert rounds[0] == rounds[1]


def no_bias(input_shape, num_classes):
    return nn.Sequential(nn.Flatten(), nn.Linear(int(np.prod(input_shape)), num_classes, bias=False))


def test_a_model_without_such_a_bias_is_refused_before_anything_trains():
    with pytest.raises(ValueError, match=r"needs a model .* of shape \(10,\); this one's has shape \(10, 64\)"):
        envs.parallel_env(**SMALL, model="test_update_reports:no_bias", with_output_bias=True)
    assert output_bias(build_model("digits_cnn", (1, 8, 8), 10), 10) == slice(1360, 1370)
    with pytest.raises(ValueError, match="this one's is missing"):
        output_bias(nn.Flatten(), 10)
    with pytest.raises(ValueError, match="with_update_norm is 1; "):
        envs.parallel_env(**SMALL, with_update_norm=1)
    assert torch.is_grad_enabled()
