"""An FL round as one would write it in plain PyTorch, without our library: what our rounds are measured against."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional

_EVALUATION_BATCH = 500


class BareLoop:
    """Local SGD of some clients from common weights, their average, and its accuracy on all test samples.

    Args:
        model: The network; it is trained in place.
        clients: Images (in [-1, 1]) and labels of the clients that train.
        test: Images and labels of all clients' test sets.
    """

    def __init__(self, model: nn.Module, clients: Sequence[tuple[Tensor, Tensor]], test: tuple[Tensor, Tensor]) -> None:
        layout = torch.channels_last
        self._model = model.to(memory_format=layout)
        self._clients = [(images.contiguous(memory_format=layout), labels) for images, labels in clients]
        self._test = (test[0].contiguous(memory_format=layout), test[1])

    def round(self, epochs: int, batch_size: int, lr: float) -> float:
        """One round; the model then holds the average. Returns the accuracy over all test samples."""
        start = {name: value.clone() for name, value in self._model.state_dict().items()}
        averaged = [name for name, value in start.items() if value.is_floating_point()]
        total = {**start, **{name: torch.zeros_like(start[name]) for name in averaged}}
        samples = sum(len(labels) for _, labels in self._clients)
        for images, labels in self._clients:
            self._model.load_state_dict(start)
            self._train(images, labels, epochs, batch_size, lr)
            trained = self._model.state_dict()
            for name in averaged:
                total[name] += trained[name] * (len(labels) / samples)
        self._model.load_state_dict(total)
        return self._accuracy()

    def _train(self, images: Tensor, labels: Tensor, epochs: int, batch_size: int, lr: float) -> None:
        self._model.train()
        optimizer = torch.optim.SGD(self._model.parameters(), lr=lr, fused=True)
        for _ in range(epochs):
            order = torch.randperm(len(labels), device=labels.device)
            batches = zip(images[order].split(batch_size), labels[order].split(batch_size), strict=True)
            for batch_images, batch_labels in batches:
                optimizer.zero_grad(set_to_none=True)
                functional.cross_entropy(self._model(batch_images), batch_labels).backward()
                optimizer.step()

    @torch.no_grad()
    def _accuracy(self) -> float:
        self._model.eval()
        images, labels = self._test
        pairs = zip(images.split(_EVALUATION_BATCH), labels.split(_EVALUATION_BATCH), strict=True)
        correct = sum(int((self._model(batch).argmax(dim=1) == expected).sum()) for batch, expected in pairs)
        return correct / len(labels)
