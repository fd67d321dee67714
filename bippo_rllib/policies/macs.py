"""Multiply-accumulates (MACs) of the selection policies, in closed form and counted on modules."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from bippo_rllib.policies.actor_critic import HIDDEN_SIZE

#: Cost of training on a sample in forward passes: one forward, and a backward pass of about two.
TRAINING_FACTOR = 3


def policy_macs(obs_dim: int = 5, hidden_size: int = HIDDEN_SIZE, num_actions: int = 2, critic: bool = True) -> int:
    """Returns the MACs of one actor and, with ``critic``, one critic on one observation.

    ``obs_dim*hidden_size + hidden_size*num_actions`` for the actor, ``obs_dim*hidden_size + hidden_size`` for the
    critic: 896 + 768 = 1,664 with the defaults, whatever the number of clients.
    """
    actor = obs_dim * hidden_size + hidden_size * num_actions
    return actor + (obs_dim * hidden_size + hidden_size if critic else 0)


def central_policy_macs(num_clients: int, hidden_size: int = HIDDEN_SIZE, critic: bool = True) -> int:
    """Returns the MACs of the central actor and critic: ``1 + 4N`` inputs, N outputs, N = ``num_clients``.

    ``hidden_size * (2 * (1 + 4N) + N + 1)``: 23,424 at 20 clients, 55,680 at 48.
    """
    joint_inputs = 1 + 4 * num_clients
    return policy_macs(obs_dim=joint_inputs, hidden_size=hidden_size, num_actions=num_clients, critic=critic)


def training_macs(macs_per_sample: float, samples: float, epochs: int) -> float:
    """Returns the MACs of training: ``samples x epochs x 3 x forward``."""
    return TRAINING_FACTOR * macs_per_sample * samples * epochs


def count_macs(module: nn.Module, example_input: Any) -> int:
    """Counts the MACs of one forward pass in convolutions and matrix products, by ``torch.utils.flop_counter``.

    It counts two floating-point operations, a multiplication and an addition, for each MAC, so MACs are half
    its total. Normalisation, pooling and activations are not counted.

    Args:
        module: Any module.
        example_input: Input of the forward pass.
    """
    from torch.utils.flop_counter import FlopCounterMode  # imports Triton too

    counter = FlopCounterMode(display=False)
    with torch.no_grad(), counter:
        module(example_input)
    return counter.get_total_flops() // 2
