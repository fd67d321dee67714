"""Reports about a client's update, computed where the client trains; the same bits in every executor."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from envs.config import FederationConfig
from envs.rules.update_sketch import UpdateSketch
from envs.training.models import num_parameters, output_bias


class UpdateReports:
    """Computes the entries of ``FederationConfig.update_reports``.

    Args:
        config: The federation.
        model: Its model.
        num_classes: Outputs of the model.
    """

    def __init__(self, config: FederationConfig, model: nn.Module, num_classes: int) -> None:
        self._requested, self._size = config.update_reports, config.update_profile_size
        self._num_parameters = num_parameters(model)
        self._bias = output_bias(model, num_classes) if config.with_output_bias else slice(0)

    def report(self, start: Sequence[Tensor], weights: Tensor, num_samples: int, seed: int) -> dict[str, Any]:
        """Returns the requested entries by info key.

        Args:
            start: The weights before training, a tensor for each layer's.
            weights: ``float32[P]`` flat weights after it.
            num_samples: The client's training samples.
            seed: Of the run.
        """
        before = torch.cat([tensor.reshape(-1) for tensor in start])
        update = (weights - before)[: self._num_parameters].cpu().numpy()
        entries = {
            "update_profile": lambda: _update_sketch(self._num_parameters, self._size, seed).sketch(
                update, num_samples
            ),
            "output_bias_update": lambda: update[self._bias].copy(),
            # Not norm(), whose last bits depend on the number of threads.
            "update_norm": lambda: float(np.sqrt(np.square(update, dtype=np.float64).sum())),
        }
        return {key: entries[key]() for key in self._requested}


@functools.lru_cache(maxsize=2)
def _update_sketch(num_values: int, size: int, seed: int) -> UpdateSketch:
    """Kept, since drawing it takes longer than using it."""
    return UpdateSketch(num_values, size, seed)
