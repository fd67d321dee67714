"""The samples of all clients in the form that is sent to the workers that train them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from envs.data.partition import Partition

if TYPE_CHECKING:
    from envs.data.datasets import Dataset


@dataclass(frozen=True)
class DataShape:
    """What a network for a data set has to know."""

    input_shape: tuple[int, ...]  #: Of a sample; (channels, height, width) of an image.
    num_classes: int  #: Labels.
    max_value: int  #: The largest value of integer inputs.

    @classmethod
    def of(cls, dataset: Dataset) -> DataShape:
        """Returns the shape of a data set."""
        return cls(dataset.input_shape, len(dataset.classes), dataset.max_value)


@dataclass(frozen=True)
class Samples:
    """One split of all clients, one client after the other in id order."""

    inputs: np.ndarray  #: ``[n, ...]``, ``uint8`` or ``float32``.
    labels: np.ndarray  #: ``int64[n]``.
    sizes: tuple[int, ...]  #: Samples of each client.


@dataclass(frozen=True)
class FederationSamples:
    """Training and test samples of all clients."""

    train: Samples
    test: Samples


def gather(dataset: Dataset, partition: Partition) -> FederationSamples:
    """Copies the samples that ``partition`` assigns, with the noisy labels of clients that have some."""
    train = _gathered(dataset.train_inputs, dataset.train_labels, partition.train)
    ends = np.cumsum(train.sizes)
    for client, labels in partition.noisy_labels.items():
        train.labels[ends[client] - len(labels) : ends[client]] = labels
    return FederationSamples(train, _gathered(dataset.test_inputs, dataset.test_labels, partition.test))


def _gathered(inputs: Tensor, labels: Tensor, indices: Sequence[np.ndarray]) -> Samples:
    index = torch.from_numpy(np.concatenate(indices))
    return Samples(inputs[index].numpy(), labels[index].numpy(), tuple(len(own) for own in indices))


class ResidentSamples:
    """``Samples`` on a device: a copy; integers as bytes, a quarter of their size as numbers."""

    def __init__(self, samples: Samples, max_value: int, device: str) -> None:
        self.sizes = samples.sizes
        self._inputs = torch.tensor(samples.inputs, device=device).split(list(samples.sizes))
        self._labels = torch.tensor(samples.labels, device=device).split(list(samples.sizes))
        self._scale = 2.0 / max_value

    def client(self, client: int) -> tuple[Tensor, Tensor]:
        """Returns a client's ``float32[n, ...]`` inputs, integers scaled to [-1, 1], and its ``int64[n]`` labels.

        Images are in torch's memory format ``channels_last``.
        """
        inputs = self._inputs[client]
        if inputs.ndim == 4:
            inputs = inputs.to(memory_format=torch.channels_last)
        if inputs.dtype == torch.uint8:
            inputs = inputs.float().mul_(self._scale).sub_(1.0)
        return inputs, self._labels[client]
