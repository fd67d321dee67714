"""Actors and critics of many policies as stacked tensors ``[N, ...]``: one kernel for acting, learning and deployment.

Row n of every tensor is policy n. Names are those of one policy's state dict (``actor.0.weight``, ...), so a row *is*
a state dict. Layers are a product and a sum over the last axis instead of ``baddbmm``: a batched matrix product rounds
differently for different batch shapes, while here a policy's output has the same bits whichever other policies and
however many of its own samples are computed beside it. The PPO ratio is therefore exactly 1 before the first step.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor

#: Name -> tensor ``[N, ...]``; row n belongs to policy n.
Stacked = dict[str, Tensor]

#: Column of the action distribution that means "participate".
PARTICIPATE = 1


def parameter_shapes(obs_dim: int, hidden_size: int) -> dict[str, tuple[int, ...]]:
    """Shape of each parameter of one policy: actor ``obs_dim -> hidden -> 2``, critic ``obs_dim -> hidden -> 1``."""
    shapes: dict[str, tuple[int, ...]] = {}
    for network, outputs in (("actor", 2), ("critic", 1)):
        shapes[f"{network}.0.weight"] = (hidden_size, obs_dim)
        shapes[f"{network}.0.bias"] = (hidden_size,)
        shapes[f"{network}.2.weight"] = (outputs, hidden_size)
        shapes[f"{network}.2.bias"] = (outputs,)
    return shapes


def initial_parameters(seed: int, policy_id: str, obs_dim: int, hidden_size: int) -> dict[str, Tensor]:
    """Fresh parameters of one policy: torch's default initialisation of linear layers, U(-1/sqrt(fan_in), ...).

    Drawn from a generator keyed by (seed, policy id): a policy starts the same whoever else exists.
    """
    key = np.random.SeedSequence([seed, *policy_id.encode()]).generate_state(1, np.uint64)[0]
    generator = torch.Generator().manual_seed(int(key >> np.uint64(1)))
    parameters = {}
    for name, shape in parameter_shapes(obs_dim, hidden_size).items():
        bound = 1.0 / math.sqrt(obs_dim if ".0." in name else hidden_size)
        parameters[name] = torch.empty(shape).uniform_(-bound, bound, generator=generator)
    return parameters


def actor_logits(parameters: Mapping[str, Tensor], observations: Tensor) -> Tensor:
    """Action logits of every policy: observations ``[N, B, obs_dim]`` -> ``[N, B, 2]``."""
    return _two_layers("actor", parameters, observations)


def critic_values(parameters: Mapping[str, Tensor], observations: Tensor) -> Tensor:
    """State values of every policy: observations ``[N, B, obs_dim]`` -> ``[N, B]``."""
    return _two_layers("critic", parameters, observations).squeeze(-1)


def log_prob_participate(logits: Tensor) -> Tensor:
    """``log pi(participate | s)``: logits ``[..., 2]`` -> ``[...]``."""
    return torch.log_softmax(logits, dim=-1)[..., PARTICIPATE]


def gather_rows(stacked: Mapping[str, Tensor], rows: Tensor) -> Stacked:
    """Copies the named rows out of the stack: ``[N, ...]`` -> ``[P, ...]``."""
    return {name: tensor[rows] for name, tensor in stacked.items()}


def scatter_rows(stacked: Mapping[str, Tensor], rows: Tensor, values: Mapping[str, Tensor]) -> None:
    """Writes ``[P, ...]`` values back into rows of the stack, in place; all other rows keep their bits."""
    for name, tensor in stacked.items():
        tensor[rows] = values[name]


def _two_layers(network: str, parameters: Mapping[str, Tensor], observations: Tensor) -> Tensor:
    hidden = torch.tanh(_linear(parameters[f"{network}.0.weight"], parameters[f"{network}.0.bias"], observations))
    return _linear(parameters[f"{network}.2.weight"], parameters[f"{network}.2.bias"], hidden)


def _linear(weight: Tensor, bias: Tensor, inputs: Tensor) -> Tensor:
    return (inputs.unsqueeze(-2) * weight.unsqueeze(1)).sum(dim=-1) + bias.unsqueeze(1)


class StackedAdam:
    """Adam with a step count and moments of its own for each policy.

    ``torch.optim.Adam`` keeps one step count per tensor, so it cannot step some rows of a stacked tensor and leave the
    moments of the others untouched; this is the same arithmetic (Kingma & Ba 2015, algorithm 1) with a row axis.

    Args:
        parameters: The stack to hold moments for.
        betas: Decay of the first and second moment.
        eps: Added to the root of the second moment.
    """

    def __init__(
        self, parameters: Mapping[str, Tensor], betas: tuple[float, float] = (0.9, 0.999), eps: float = 1e-8
    ) -> None:
        self._betas, self._eps = betas, eps
        self.exp_avg: Stacked = {name: torch.zeros_like(tensor) for name, tensor in parameters.items()}
        self.exp_avg_sq: Stacked = {name: torch.zeros_like(tensor) for name, tensor in parameters.items()}
        self.steps = torch.zeros(next(iter(parameters.values())).shape[0], dtype=torch.int64)

    def step(self, parameters: Mapping[str, Tensor], gradients: Mapping[str, Tensor], rows: Tensor, lr: float) -> None:
        """One step of the policies in ``rows``.

        Args:
            parameters: ``[P, ...]`` parameters of those policies, updated in place.
            gradients: ``[P, ...]`` their gradients.
            rows: ``int64[P]`` their rows in the moments.
            lr: Learning rate.
        """
        beta1, beta2 = self._betas
        self.steps[rows] += 1
        steps = self.steps[rows].to(torch.float64)
        step_size = (lr / (1.0 - beta1**steps)).to(torch.float32)
        root_correction = (1.0 - beta2**steps).sqrt().to(torch.float32)
        for name, parameter in parameters.items():
            gradient = gradients[name]
            per_row = (-1,) + (1,) * (parameter.dim() - 1)
            exp_avg = self.exp_avg[name][rows].lerp(gradient, 1.0 - beta1)
            exp_avg_sq = self.exp_avg_sq[name][rows].mul(beta2).addcmul(gradient, gradient, value=1.0 - beta2)
            self.exp_avg[name][rows], self.exp_avg_sq[name][rows] = exp_avg, exp_avg_sq
            denominator = exp_avg_sq.sqrt().div(root_correction.view(per_row)).add(self._eps)
            parameter -= step_size.view(per_row) * exp_avg / denominator

    def grow(self, num_policies: int) -> None:
        """Adds zeroed rows until there are ``num_policies``."""
        for moments in (self.exp_avg, self.exp_avg_sq):
            for name, tensor in moments.items():
                moments[name] = grow_rows(tensor, num_policies)
        self.steps = grow_rows(self.steps, num_policies)

    def get_state(self, rows: Tensor) -> dict[str, Any]:
        """Moments and step counts of the policies in ``rows`` (``int64[P]``), as NumPy arrays ``[P, ...]``."""
        return {
            "exp_avg": {name: tensor[rows].numpy() for name, tensor in self.exp_avg.items()},
            "exp_avg_sq": {name: tensor[rows].numpy() for name, tensor in self.exp_avg_sq.items()},
            "steps": self.steps[rows].numpy(),
        }

    def set_state(self, state: Mapping[str, Any], rows: Tensor) -> None:
        """Restores what ``get_state`` returned into ``rows``."""
        scatter_rows(self.exp_avg, rows, {name: torch.as_tensor(a) for name, a in state["exp_avg"].items()})
        scatter_rows(self.exp_avg_sq, rows, {name: torch.as_tensor(a) for name, a in state["exp_avg_sq"].items()})
        self.steps[rows] = torch.as_tensor(state["steps"])


def grow_rows(tensor: Tensor, num_rows: int) -> Tensor:
    """``tensor`` with zeroed rows appended up to ``num_rows``."""
    grown = tensor.new_zeros((num_rows, *tensor.shape[1:]))
    grown[: tensor.shape[0]] = tensor
    return grown
