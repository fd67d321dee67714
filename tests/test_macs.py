"""MACs in closed form and counted on real modules."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from bippo_rllib import central_policy_macs, count_macs, policy_macs


def actor_and_critic(inputs: int, outputs: int, hidden: int = 128) -> nn.ModuleList:
    return nn.ModuleList(
        [
            nn.Sequential(nn.Linear(inputs, hidden), nn.Tanh(), nn.Linear(hidden, outputs)),
            nn.Sequential(nn.Linear(inputs, hidden), nn.Tanh(), nn.Linear(hidden, 1)),
        ]
    )


def counted(networks: nn.ModuleList, inputs: int) -> int:
    return sum(count_macs(network, torch.zeros(1, inputs)) for network in networks)


def test_a_client_policy():
    # Actor 5*128 + 128*2 = 896, critic 5*128 + 128*1 = 768.
    assert policy_macs() == 896 + 768 == 1664
    assert counted(actor_and_critic(5, 2), 5) == 1664


@pytest.mark.parametrize(("num_clients", "macs"), [(20, 23_424), (48, 55_680)])
def test_the_central_policy(num_clients, macs):
    assert central_policy_macs(num_clients) == macs
    assert counted(actor_and_critic(1 + 4 * num_clients, num_clients), 1 + 4 * num_clients) == macs


def test_a_convolution():
    # 3 input channels, 8 output channels, 3x3 kernel, 10x10 outputs.
    assert count_macs(nn.Conv2d(3, 8, 3, padding=1), torch.zeros(1, 3, 10, 10)) == 3 * 8 * 9 * 100
