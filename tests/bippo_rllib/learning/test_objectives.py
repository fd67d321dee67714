"""GAE and the clipped objective against hand-computed values and an independent recursion."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from bippo_rllib.learning.objectives import gae, ppo_loss


def tensor(*values: float) -> torch.Tensor:
    return torch.tensor(values, dtype=torch.float64)


def test_gae_golden_values():
    # delta_1 = 1 + 0.9*0.4 - 0.5 = 0.86; delta_2 = -1 + 0.9*0.3 - 0.2 = -0.93;
    # A_2 = -0.93; A_1 = 0.86 + 0.9*0.8*(-0.93) = 0.1904; R = A + V = (0.6904, -0.73).
    advantages, returns = gae(
        tensor(1.0, -1.0),
        tensor(0.5, 0.2),
        tensor(0.4, 0.3),
        torch.tensor([False, True]),
        gamma=0.9,
        lambda_=0.8,
    )
    torch.testing.assert_close(advantages, tensor(0.1904, -0.93))
    torch.testing.assert_close(returns, tensor(0.6904, -0.73))


@settings(max_examples=50)
@given(st.integers(1, 6), st.integers(1, 5), st.integers(0, 1000))
def test_gae_equals_the_sum_of_discounted_deltas(num_steps, num_policies, seed):
    rng = np.random.default_rng(seed)
    rewards, values, following = rng.normal(size=(3, num_policies, num_steps))
    ends = rng.random((num_policies, num_steps)) < 0.3
    advantages, _ = gae(*map(torch.from_numpy, (rewards, values, following, ends)), gamma=0.9, lambda_=0.8)
    deltas = rewards + 0.9 * following - values
    for p in range(num_policies):
        for k in range(num_steps):
            expected, weight = 0.0, 1.0
            for later in range(k, num_steps):
                expected += weight * deltas[p, later]
                weight *= 0.72
                if ends[p, later]:
                    break
            assert advantages[p, k].item() == pytest.approx(expected, abs=1e-12)


def test_ppo_loss_clips_each_side():
    # ratio 1.5, advantage 1: min(1.5, 1.2) = 1.2. ratio 0.5, advantage -1: min(-0.5, -0.8) = -0.8.
    # Value errors (1 - 0)^2 = 1 and (0 - 2)^2 = 4: loss = ((1 - 1.2) + (4 + 0.8)) / 2 = 2.3.
    batch = torch.log(tensor(1.5, 0.5)), tensor(0.0, 0.0), tensor(1.0, -1.0), tensor(1.0, 0.0), tensor(0.0, 2.0)
    loss = ppo_loss(*batch, clip_param=0.2)
    assert loss.item() == pytest.approx(2.3)
    # vf_clip_param bounds each squared error (1 and 3), vf_loss_coeff weighs it: ((0.5 - 1.2) + (1.5 + 0.8)) / 2.
    clipped = ppo_loss(*batch, clip_param=0.2, vf_loss_coeff=0.5, vf_clip_param=3.0)
    assert clipped.item() == pytest.approx(0.8)
