"""An FL round as one would write it in plain PyTorch, without our library: what our rounds are measured against."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional


def train(model: nn.Module, images: Tensor, labels: Tensor, epochs: int, batch_size: int, lr: float) -> None:
    """Trains the model in place by local SGD, the samples shuffled in every epoch."""
    model.train()
    optimizer = torch.optim.SGD(model.parameters(), lr=lr, fused=True)
    for _ in range(epochs):
        order = torch.randperm(len(labels), device=labels.device)
        batches = zip(images[order].split(batch_size), labels[order].split(batch_size), strict=True)
        for batch_images, batch_labels in batches:
            optimizer.zero_grad(set_to_none=True)
            functional.cross_entropy(model(batch_images), batch_labels).backward()
            optimizer.step()


def train_round(
    model: nn.Module, clients: Sequence[tuple[Tensor, Tensor]], epochs: int, batch_size: int, lr: float
) -> None:
    """Trains each client from the model's weights; the model then holds the average by data size.

    Args:
        model: The network, channels-last.
        clients: Images (in [-1, 1], channels-last) and labels of each.
        epochs: Local epochs.
        batch_size: Samples in a step.
        lr: Learning rate.
    """
    start = {name: value.clone() for name, value in model.state_dict().items()}
    averaged = [name for name, value in start.items() if value.is_floating_point()]
    total = {**start, **{name: torch.zeros_like(start[name]) for name in averaged}}
    samples = sum(len(labels) for _, labels in clients)
    for images, labels in clients:
        model.load_state_dict(start)
        train(model, images, labels, epochs, batch_size, lr)
        trained = model.state_dict()
        for name in averaged:
            total[name] += trained[name] * (len(labels) / samples)
    model.load_state_dict(total)
