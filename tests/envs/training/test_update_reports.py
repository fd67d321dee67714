"""What is asked about updates: the output layer's bias and the length, as plain training has them."""

from __future__ import annotations

import numpy as np
import pytest
from plain_federation import PlainFederation
from torch import nn

import envs
from envs.rules.update_sketch import UpdateSketch
from envs.training import models
from envs.training.models import build_model, num_parameters, output_bias, weight_tensors

ASKED = {"with_output_bias": True, "with_update_norm": True, "update_profile_size": 6}
SMALL = {"train_samples": (8, 12, 20, 16), "test_samples": 20, "batch_size": 8, "num_clients": 4, "budget_share": 1.0}


def test_infos_have_what_plain_training_changes():
    env = envs.parallel_env(**SMALL, **ASKED, local_epochs=2, executor="serial")
    _, infos = env.reset(seed=5)
    assert all(info["output_bias_update"].shape == (10,) and info["update_norm"] > 0 for info in infos.values())
    assert all(info["update_profile"].shape == (6,) and info["update_profile"].any() for info in infos.values())
    start = build_model("digits_cnn", (1, 8, 8), 10)
    models.FlatWeights(start).set(env.get_state()["weights"])
    infos = env.step({"client_001": 1, "client_002": 1})[4]
    plain, sketch = PlainFederation(env.config, 5), UpdateSketch(num_parameters(start), 6, 5)
    for client in (1, 2):
        trained, info = plain.trained(start, client, 1), infos[f"client_{client:03d}"]
        before, after = (np.concatenate([w.numpy().ravel() for w in weight_tensors(m)]) for m in (start, trained))
        bias = (trained[-1].bias - start[-1].bias).detach().numpy()
        np.testing.assert_allclose(info["output_bias_update"], bias, rtol=1e-4, atol=1e-7)
        assert info["update_norm"] == pytest.approx(np.linalg.norm((after - before).astype(np.float64)), rel=1e-5)
        expected = sketch.sketch(after - before, SMALL["train_samples"][client])
        np.testing.assert_allclose(info["update_profile"], expected, rtol=1e-4, atol=1e-7)


def test_they_leave_the_federation_as_it_is():
    rounds = []
    for fields in ({}, ASKED):
        env = envs.parallel_env(**SMALL, **fields, executor="serial")
        env.reset(seed=2)
        env.step(dict.fromkeys(env.agents, 1))
        rounds.append(env.last_round)
    assert rounds[0] == rounds[1]


def no_bias(input_shape, num_classes):
    return nn.Sequential(nn.Flatten(), nn.Linear(int(np.prod(input_shape)), num_classes, bias=False))


def test_a_model_without_such_a_bias_is_refused_before_anything_trains():
    with pytest.raises(ValueError, match=r"shape \(10,\); this one's has shape \(10, 64\)"):
        envs.parallel_env(**SMALL, model="test_update_reports:no_bias", with_output_bias=True)
    assert output_bias(build_model("digits_cnn", (1, 8, 8), 10), 10) == slice(1360, 1370)
    with pytest.raises(ValueError, match="this one's is missing"):
        output_bias(nn.Flatten(), 10)
