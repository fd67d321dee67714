"""One client's local training, and the evaluation of many clients in few large batches."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import nullcontext

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from envs.training.packing import EVALUATION_BATCH


def train_locally(
    model: nn.Module,
    inputs: Tensor,
    labels: Tensor,
    *,
    epochs: int,
    batch_size: int,
    lr: float,
    rng: np.random.Generator,
    mixed_precision: bool = False,
    proximal_mu: float = 0.0,
) -> None:
    """Runs local SGD in place: no momentum, a fresh shuffle each epoch, the last partial batch kept.

    Args:
        model: The network, holding the global weights.
        inputs: ``float32[n, ...]``.
        labels: ``int64[n]``.
        epochs: Passes over the data.
        batch_size: Samples in a step.
        lr: Learning rate.
        rng: Draws one permutation per epoch.
        mixed_precision: Forward passes in bfloat16 where torch's autocast thinks it safe; weights stay float32.
        proximal_mu: Weight of FedProx's term, ``mu / 2 * |w - w_start|**2`` (Li et al. 2020); 0 for none.

    Raises:
        FloatingPointError: If the loss or the weights become NaN or infinite.
    """
    model.train()
    parameters = tuple(model.parameters())
    start = [parameter.detach().clone() for parameter in parameters] if proximal_mu else []
    total_loss = torch.zeros((), device=inputs.device)
    for _ in range(epochs):
        order = torch.from_numpy(rng.permutation(len(labels))).to(inputs.device)
        batches = zip(inputs[order].split(batch_size), labels[order].split(batch_size), strict=True)
        for batch_inputs, batch_labels in batches:
            for parameter in parameters:
                parameter.grad = None
            with torch.autocast(inputs.device.type, torch.bfloat16) if mixed_precision else nullcontext():
                loss = functional.cross_entropy(model(batch_inputs), batch_labels)
            loss.backward()
            for parameter, at_start in zip(parameters, start, strict=False):
                if parameter.grad is not None:
                    parameter.grad.add_(parameter.detach() - at_start, alpha=proximal_mu)
            _step(parameters, lr)
            total_loss += loss.detach()
    if not (torch.isfinite(total_loss) and all(torch.isfinite(p).all() for p in parameters)):
        raise FloatingPointError(f"the loss or the weights are not finite (summed loss {total_loss.item():g})")


@torch.no_grad()
def _step(parameters: Iterable[nn.Parameter], lr: float) -> None:
    """As ``torch.optim.SGD`` does; the first object of that class imports ``torch._dynamo``, which takes seconds."""
    by_dtype: dict[torch.dtype, tuple[list[Tensor], list[Tensor]]] = {}
    for parameter in parameters:
        if parameter.grad is not None:
            weights, gradients = by_dtype.setdefault(parameter.dtype, ([], []))
            weights.append(parameter)
            gradients.append(parameter.grad)
    for weights, gradients in by_dtype.values():
        torch._fused_sgd_(
            weights,
            gradients,
            [],
            lr=lr,
            weight_decay=0.0,
            momentum=0.0,
            dampening=0.0,
            nesterov=False,
            maximize=False,
            is_first_step=False,
        )


@torch.no_grad()
def evaluate(model: nn.Module, inputs: Tensor, labels: Tensor, sizes: Sequence[int]) -> tuple[np.ndarray, np.ndarray]:
    """Computes accuracy and mean cross-entropy of consecutive segments of a batch.

    Args:
        model: The network.
        inputs: ``float32[sum(sizes), ...]`` samples of several clients, one client after the other.
        labels: ``int64[sum(sizes)]``.
        sizes: Samples per client.

    Returns:
        ``float64[len(sizes)]`` accuracies and mean losses.
    """
    model.eval()
    logits = torch.cat([model(batch) for batch in inputs.split(EVALUATION_BATCH)])
    correct = (logits.argmax(dim=1) == labels).double()
    losses = functional.cross_entropy(logits, labels, reduction="none").double()
    means = [[part.mean() for part in values.split(list(sizes))] for values in (correct, losses)]
    accuracies, mean_losses = torch.stack([torch.stack(row) for row in means]).cpu().numpy()
    return accuracies, mean_losses
