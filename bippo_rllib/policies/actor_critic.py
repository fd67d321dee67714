"""Actors and critics of many policies as one tensor ``[N, size]``: one kernel for acting, learning and deployment.

Row n holds all parameters of policy n; ``ParameterLayout`` cuts it into the tensors of its state dict
(``actor.0.weight``, ...). Layers are a product and a sum over the last axis instead of ``baddbmm``: a batched matrix
product rounds differently for different batch shapes, while here a policy's output has the same bits whichever other
policies and however many of its own samples are computed beside it. The PPO ratio is therefore exactly 1 before the
first step.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

#: Column of the action distribution that means "participate".
PARTICIPATE = 1

#: Hidden units of each actor and critic in the paper.
HIDDEN_SIZE = 128


@dataclass(frozen=True)
class ParameterLayout:
    """Layout of an actor ``obs_dim -> hidden -> num_actions`` and a critic ``obs_dim -> hidden -> 1`` in a row."""

    obs_dim: int
    hidden_size: int = HIDDEN_SIZE
    num_actions: int = 2

    @property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Name -> shape of one policy's tensor, in the order they lie in the row."""
        shapes: dict[str, tuple[int, ...]] = {}
        for network, outputs in (("actor", self.num_actions), ("critic", 1)):
            shapes[f"{network}.0.weight"] = (self.hidden_size, self.obs_dim)
            shapes[f"{network}.0.bias"] = (self.hidden_size,)
            shapes[f"{network}.2.weight"] = (outputs, self.hidden_size)
            shapes[f"{network}.2.bias"] = (outputs,)
        return shapes

    @property
    def size(self) -> int:
        """Length of a row: parameters of one policy."""
        return sum(math.prod(shape) for shape in self.shapes.values())

    def views(self, flat: Tensor) -> dict[str, Tensor]:
        """Cuts ``[N, size]`` into views ``[N, ...]`` by name."""
        shapes = self.shapes
        parts = flat.split([math.prod(shape) for shape in shapes.values()], dim=1)
        return {name: part.view(flat.shape[0], *shapes[name]) for name, part in zip(shapes, parts, strict=True)}

    def row(self, state_dict: Mapping[str, Any]) -> Tensor:
        """Converts one policy's state dict to its row ``[size]``.

        Raises:
            ValueError: If names or shapes differ from this layout's.
        """
        found = {name: tuple(np.shape(array)) for name, array in state_dict.items()}
        if found != self.shapes:
            raise ValueError(f"a policy with parameters {found}; expected {self.shapes}")
        return torch.cat([torch.as_tensor(state_dict[name]).flatten() for name in self.shapes])


def initial_parameters(layout: ParameterLayout, seed: int, policy_id: str) -> Tensor:
    """Draws a new row ``[size]`` as torch initialises linear layers, from U(-1/sqrt(fan_in), 1/sqrt(fan_in)).

    The generator is keyed by (seed, policy id): initial weights do not depend on other policies.
    """
    key = np.random.SeedSequence([seed, *policy_id.encode()]).generate_state(1, np.uint64)[0]
    generator = torch.Generator().manual_seed(int(key >> np.uint64(1)))
    row = torch.empty(1, layout.size)
    for name, tensor in layout.views(row).items():
        bound = 1.0 / math.sqrt(layout.obs_dim if ".0." in name else layout.hidden_size)
        tensor.uniform_(-bound, bound, generator=generator)
    return row[0]


def actor_logits(parameters: Mapping[str, Tensor], observations: Tensor) -> Tensor:
    """Computes the action logits of every policy: observations ``[N, B, obs_dim]`` -> ``[N, B, num_actions]``."""
    return _two_layers("actor", parameters, observations)


def critic_values(parameters: Mapping[str, Tensor], observations: Tensor) -> Tensor:
    """Computes the state values of every policy: observations ``[N, B, obs_dim]`` -> ``[N, B]``."""
    return _two_layers("critic", parameters, observations).squeeze(-1)


def log_prob_participate(logits: Tensor) -> Tensor:
    """Computes ``log pi(participate | s)``: logits ``[..., 2]`` -> ``[...]``."""
    return torch.log_softmax(logits, dim=-1)[..., PARTICIPATE]


def check_outputs(logits: Tensor, name_of: Callable[[int], str]) -> None:
    """Refuses outputs that are not finite, as of policies whose weights have overflowed.

    Args:
        logits: ``[P, ...]`` of P policies.
        name_of: Index of a policy among them -> its name.

    Raises:
        ValueError: If an output is not finite; the message names the first such policy.
    """
    finite = torch.isfinite(logits).flatten(1).all(dim=1)
    if not bool(finite.all()):
        first = int((~finite).nonzero()[0])
        raise ValueError(
            f"{name_of(first)} has diverged: its outputs are not finite; train with a lower lr, or set grad_clip"
        )


def grow_rows(tensor: Tensor, num_rows: int) -> Tensor:
    """Appends rows of zeros to a tensor up to ``num_rows``."""
    grown = tensor.new_zeros((num_rows, *tensor.shape[1:]))
    grown[: tensor.shape[0]] = tensor
    return grown


def _two_layers(network: str, parameters: Mapping[str, Tensor], observations: Tensor) -> Tensor:
    hidden = torch.tanh(_linear(parameters[f"{network}.0.weight"], parameters[f"{network}.0.bias"], observations))
    return _linear(parameters[f"{network}.2.weight"], parameters[f"{network}.2.bias"], hidden)


def _linear(weight: Tensor, bias: Tensor, inputs: Tensor) -> Tensor:
    return (inputs.unsqueeze(-2) * weight.unsqueeze(1)).sum(dim=-1) + bias.unsqueeze(1)
