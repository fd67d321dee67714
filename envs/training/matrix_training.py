"""Local SGD of ``digits_cnn`` in matrix products, written by hand: on small images its operators take longest to start.

A convolution is one product with all of a client's image patches, which stay the same over its epochs. What lies in one
corner of the pooling windows is contiguous, so that pooling is three maxima.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional


@torch.no_grad()
def train_digits_cnn(
    model: nn.Module,
    inputs: Tensor,
    labels: Tensor,
    *,
    epochs: int,
    batch_size: int,
    lr: float,
    rng: np.random.Generator,
) -> None:
    """Trains as ``local_training.train_locally`` with the same shuffles; the last bits differ.

    Args:
        model: A ``digits_cnn`` that holds the global weights.
        inputs: ``float32[n, channels, height, width]``.
        labels: ``int64[n]``.
        epochs: Passes over the data.
        batch_size: Samples in a step.
        lr: Learning rate.
        rng: Draws one permutation per epoch.

    Raises:
        FloatingPointError: If the weights become NaN or infinite.
    """
    parameters = list(model.parameters())
    weights = [parameter.reshape(len(parameter), -1).clone() for parameter in parameters]
    patches = _patches(inputs)
    targets = functional.one_hot(labels, len(weights[-1])).T.float()
    for _ in range(epochs):
        order = torch.from_numpy(rng.permutation(len(labels))).to(inputs.device)
        for batch in order.split(batch_size):
            gradients = _gradients(weights, patches.index_select(3, batch), targets.index_select(1, batch))
            torch._foreach_add_(weights, gradients, alpha=-lr)
    if not all(torch.isfinite(each).all() for each in weights):
        raise FloatingPointError("the weights are not finite")
    for parameter, trained in zip(parameters, weights, strict=True):
        parameter.copy_(trained.view(parameter.shape))


def _patches(inputs: Tensor) -> Tensor:
    """Returns ``float32[channels * 9, 4, windows, n]``: the pixels under the kernel, by corner and pooling window."""
    count, channels, height, width = inputs.shape
    high, wide = height // 2, width // 2
    patches = functional.unfold(inputs, 3, padding=1).view(count, channels * 9, height, width)
    corners = patches[:, :, : 2 * high, : 2 * wide].reshape(count, channels * 9, high, 2, wide, 2)
    return corners.permute(1, 3, 5, 2, 4, 0).reshape(channels * 9, 4, high * wide, count)


def _gradients(weights: list[Tensor], patches: Tensor, targets: Tensor) -> list[Tensor]:
    """Returns the gradients of the mean cross-entropy of a batch, in the shapes of ``weights``.

    Args:
        weights: Kernels ``[filters, channels * 9]``, their bias ``[filters, 1]``, the output layer's matrix ``[classes,
            filters * windows]`` and bias ``[classes, 1]``.
        patches: ``float32[channels * 9, 4, windows, batch]``.
        targets: ``float32[classes, batch]``, 1 for each sample's label.
    """
    kernels, bias, matrix, offset = weights
    filters, batch = len(kernels), patches.shape[-1]
    pixels = patches.flatten(1)
    one, two, three, four = torch.addmm(bias, kernels, pixels).view(filters, 4, -1).unbind(1)
    upper, lower = torch.maximum(one, two), torch.maximum(three, four)
    pooled = torch.maximum(upper, lower).relu_()
    features = pooled.view(-1, batch)
    errors = torch.addmm(offset, matrix, features).softmax(0).sub_(targets).div_(batch)
    # Back to the first corner that has the maximum, as torch does.
    window = (matrix.T @ errors).view(filters, -1) * (pooled > 0)
    to_lower = window * (lower > upper)
    to_upper = window - to_lower
    to_two, to_four = to_upper * (two > one), to_lower * (four > three)
    corners = torch.stack([to_upper - to_two, to_two, to_lower - to_four, to_four], 1).flatten(1)
    return [
        corners @ pixels.T,
        window.sum(1, keepdim=True),
        errors @ features.T,
        errors.sum(1, keepdim=True),
    ]
