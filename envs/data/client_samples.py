"""The samples of all clients in the form that is sent to whoever trains them."""

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

    input_shape: tuple[int, int, int]  #: (channels, height, width).
    num_classes: int  #: Labels.
    max_value: int  #: The largest value a pixel can take.

    @classmethod
    def of(cls, dataset: Dataset) -> DataShape:
        """The shape of a data set."""
        return cls(dataset.input_shape, len(dataset.classes), dataset.max_value)


@dataclass(frozen=True)
class Samples:
    """One split of all clients, one client after the other in id order."""

    images: np.ndarray  #: ``uint8[n, channels, height, width]``.
    labels: np.ndarray  #: ``int64[n]``.
    sizes: tuple[int, ...]  #: Samples of each client.


@dataclass(frozen=True)
class FederationSamples:
    """Training and test samples of all clients."""

    train: Samples
    test: Samples


def gather(dataset: Dataset, partition: Partition) -> FederationSamples:
    """Copies the samples that ``partition`` deals out, with the noisy labels of those that have some."""
    train = _gathered(dataset.train_images, dataset.train_labels, partition.train)
    ends = np.cumsum(train.sizes)
    for client, labels in partition.noisy_labels.items():
        train.labels[ends[client] - len(labels) : ends[client]] = labels
    return FederationSamples(train, _gathered(dataset.test_images, dataset.test_labels, partition.test))


def _gathered(images: Tensor, labels: Tensor, indices: Sequence[np.ndarray]) -> Samples:
    index = torch.from_numpy(np.concatenate(indices))
    return Samples(images[index].numpy(), labels[index].numpy(), tuple(len(own) for own in indices))


class ResidentSamples:
    """``Samples`` on a device: a copy of its own as bytes, a quarter of their size as numbers."""

    def __init__(self, samples: Samples, max_value: int, device: str) -> None:
        self.sizes = samples.sizes
        self._images = torch.tensor(samples.images, device=device).split(list(samples.sizes))
        self._labels = torch.tensor(samples.labels, device=device).split(list(samples.sizes))
        self._scale = 2.0 / max_value

    def of(self, client: int) -> tuple[Tensor, Tensor]:
        """``float32[n, channels, height, width]`` images in [-1, 1], channels-last, and ``int64[n]`` labels."""
        images = self._images[client].to(memory_format=torch.channels_last).float()
        return images.mul_(self._scale).sub_(1.0), self._labels[client]
