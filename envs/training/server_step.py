"""A user's own server step, ``aggregation="MODULE:NAME"``: the next global model of those of the clients.

A function of ``(weights, clients, num_samples, state)`` that returns the next global model, ``float32[P]``:

- ``weights``: ``float32[P]``, the global model before the round, parameters first, then floating-point buffers.
- ``clients``: ``float32[K, P]``, the models of the clients that trained, in the order of their ids.
- ``num_samples``: ``int64[K]``, their training samples.
- ``state``: a dict of tensors and numbers, empty before round 0, to keep what the step needs in the next round, such as
  a momentum. It is part of checkpoints.

It is called in round 0 as well, and with the rewards ``leave_one_out`` and ``shapley`` for models of some participants,
each time with a copy of the state. It runs where the environment is, on the CPU, so that it gives the same bits with
any executor, as long as it is a function of its arguments.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from envs.imports import import_function, own_code
from envs.training import aggregation
from envs.training.aggregation import WeightedSum


class ServerStep:
    """Calls a user's function and checks what it returns.

    Args:
        name: ``MODULE:NAME``.
    """

    def __init__(self, name: str) -> None:
        self._name, self._step = name, import_function("aggregation", name)

    def next_model(
        self, weights: Tensor, updates: Mapping[int, WeightedSum], state: Mapping[str, Any]
    ) -> tuple[Tensor, dict[str, Any]]:
        """Returns the next model and state; ``weights`` and ``state`` stay as they are.

        Args:
            weights: ``float32[P]``.
            updates: Each client's sum, by client; one without samples failed and is left out.
            state: What the last call for the global model returned.

        Raises:
            ValueError: If the function raises an error, or returns something else than ``float32[P]`` finite numbers.
        """
        trained = [client for client in sorted(updates) if updates[client].num_samples]
        models = torch.stack([aggregation.mean(updates[client]) for client in trained])
        num_samples = torch.tensor([updates[client].num_samples for client in trained])
        after = copy.deepcopy(dict(state))
        with own_code(f"aggregation {self._name}"), torch.no_grad():
            model = self._step(weights.clone(), models, num_samples, after)
        found = f"{model.dtype}{list(model.shape)}" if isinstance(model, Tensor) else type(model).__name__
        expected = f"torch.float32{list(weights.shape)}"
        if found != expected or not torch.isfinite(model).all():
            raise ValueError(f"aggregation {self._name} returned {found}; it must return {expected}, all finite")
        return model.detach().clone(), after
