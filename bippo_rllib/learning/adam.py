"""Adam with a step count and moments for each row."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from bippo_rllib.policies.actor_critic import grow_rows

BETAS = (0.9, 0.999)  #: decay of the first and second moment
EPSILON = 1e-8  #: what is added to the root of the second moment


@dataclass
class Moments:
    """Adam's state of P policies."""

    exp_avg: Tensor  #: ``[P, size]`` first moment
    exp_avg_sq: Tensor  #: ``[P, size]`` second moment
    steps: Tensor  #: ``int64[P]`` steps taken


class StackedAdam:
    """Adam over the rows of a stack, a policy each; policies that are not stepped keep their moments.

    ``torch.optim.Adam`` keeps one step count per tensor, so it cannot step some rows and leave the others untouched;
    this is the same arithmetic (Kingma & Ba 2015, algorithm 1) with a row axis.

    Args:
        num_policies: Rows.
        size: Parameters of a row.
    """

    def __init__(self, num_policies: int, size: int) -> None:
        self.all = Moments(
            torch.zeros(num_policies, size),
            torch.zeros(num_policies, size),
            torch.zeros(num_policies, dtype=torch.int64),
        )

    def gather(self, slots: Tensor) -> Moments:
        """Copies the moments in ``slots`` (``int64[P]``)."""
        return Moments(*(tensor[slots] for tensor in vars(self.all).values()))

    def scatter(self, slots: Tensor, moments: Moments) -> None:
        """Writes moments back into ``slots``; all others keep their bits."""
        for name, tensor in vars(self.all).items():
            tensor[slots] = getattr(moments, name)

    def step(self, parameters: Tensor, gradients: Tensor, moments: Moments, lr: float) -> None:
        """Makes one step of P policies, in place.

        Args:
            parameters: ``[P, size]``.
            gradients: ``[P, size]``.
            moments: Adam moments of these P policies, updated in place.
            lr: Learning rate.
        """
        beta1, beta2 = BETAS
        moments.steps += 1
        steps = moments.steps.unsqueeze(1).to(torch.float64)
        step_size = (lr / (1.0 - beta1**steps)).to(torch.float32)
        root_correction = (1.0 - beta2**steps).sqrt().to(torch.float32)
        moments.exp_avg.lerp_(gradients, 1.0 - beta1)
        moments.exp_avg_sq.mul_(beta2).addcmul_(gradients, gradients, value=1.0 - beta2)
        denominator = moments.exp_avg_sq.sqrt().div_(root_correction).add_(EPSILON)
        parameters -= step_size * moments.exp_avg / denominator

    def grow(self, num_policies: int) -> None:
        """Adds zeroed rows until there are ``num_policies``."""
        self.all = Moments(*(grow_rows(tensor, num_policies) for tensor in vars(self.all).values()))

    def clear(self, slots: np.ndarray) -> None:
        """Sets the moments and step counts in ``slots`` (``int64[P]``) to 0."""
        for tensor in vars(self.all).values():
            tensor[torch.from_numpy(slots)] = 0

    def get_state(self, slots: np.ndarray) -> dict[str, np.ndarray]:
        """Returns the moments in ``slots`` (``int64[P]``) as arrays ``[P, ...]``."""
        return {name: tensor.numpy() for name, tensor in vars(self.gather(torch.from_numpy(slots))).items()}

    def check_state(self, state: Mapping[str, Any]) -> None:
        """Raises a ValueError if the state belongs to policies with another number of parameters."""
        for name, tensor in vars(self.all).items():
            if state[name].shape[1:] != tensor.shape[1:]:
                raise ValueError(
                    f"the checkpoint's policies have {state[name].shape[1]} parameters each, this algorithm's "
                    f"{tensor.shape[1]}; use the hidden_size and observations it was saved with"
                )

    def set_state(self, state: Mapping[str, Any], slots: np.ndarray) -> None:
        """Restores what ``get_state`` returned into ``slots``; see ``check_state``."""
        self.check_state(state)
        moments = Moments(*(torch.as_tensor(state[name]) for name in vars(self.all)))
        self.scatter(torch.from_numpy(slots), moments)
