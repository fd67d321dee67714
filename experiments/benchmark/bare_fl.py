"""An FL round as one would write it in plain PyTorch, without our library: what our rounds are measured against.

Its options are ways to make such a loop fast; the defaults are what `envs` does. `benchmark fl --variants` times them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import cast

import torch
from torch import Tensor, nn
from torch.nn import functional


@dataclass(frozen=True)
class LoopOptions:
    """How the loop is written. `optimizer` is `fused`, `foreach` or `loop`; `shuffled` is `epoch` (one gather of the
    whole epoch) or `batch` (one gather per batch)."""

    channels_last: bool = True
    optimizer: str = "fused"
    shuffled: str = "epoch"
    evaluation_batch: int = 500
    compile: bool = False


#: Name of a variant -> options; each differs from the default in one thing.
VARIANTS: dict[str, LoopOptions] = {
    "as envs": LoopOptions(),
    "channels first": LoopOptions(channels_last=False),
    "foreach SGD": LoopOptions(optimizer="foreach"),
    "SGD parameter by parameter": LoopOptions(optimizer="loop"),
    "gather per batch": LoopOptions(shuffled="batch"),
    "evaluation batches of 100": LoopOptions(evaluation_batch=100),
    "evaluation batches of 2000": LoopOptions(evaluation_batch=2000),
    "torch.compile": LoopOptions(compile=True),
}


class BareLoop:
    """Local SGD of some clients from common weights, their average, and its accuracy on all test samples.

    Args:
        model: The network; it is trained in place.
        clients: Images (in [-1, 1]) and labels of the clients that train.
        test: Images and labels of all clients' test sets.
        options: How it is done.
    """

    def __init__(
        self,
        model: nn.Module,
        clients: Sequence[tuple[Tensor, Tensor]],
        test: tuple[Tensor, Tensor],
        options: LoopOptions | None = None,
    ) -> None:
        self._options = options = options or LoopOptions()
        layout = torch.channels_last if options.channels_last else torch.contiguous_format
        self._model = model.to(memory_format=layout)
        # A compiled module is a module; torch's annotations say no more than that it can be called.
        self._network = cast(nn.Module, torch.compile(self._model)) if options.compile else self._model
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
        self._network.train()
        kinds: dict[str, dict[str, bool]] = {"fused": {"fused": True}, "foreach": {"foreach": True}}
        kind = kinds.get(self._options.optimizer, {"foreach": False})
        optimizer = torch.optim.SGD(self._model.parameters(), lr=lr, **kind)
        for _ in range(epochs):
            for batch_images, batch_labels in self._batches(images, labels, batch_size):
                optimizer.zero_grad(set_to_none=True)
                functional.cross_entropy(self._network(batch_images), batch_labels).backward()
                optimizer.step()

    def _batches(self, images: Tensor, labels: Tensor, batch_size: int) -> Iterator[tuple[Tensor, Tensor]]:
        order = torch.randperm(len(labels), device=labels.device)
        if self._options.shuffled == "epoch":
            yield from zip(images[order].split(batch_size), labels[order].split(batch_size), strict=True)
        else:
            for index in order.split(batch_size):
                yield images[index], labels[index]

    @torch.no_grad()
    def _accuracy(self) -> float:
        self._network.eval()
        images, labels = self._test
        size = self._options.evaluation_batch
        pairs = zip(images.split(size), labels.split(size), strict=True)
        correct = sum(int((self._network(batch).argmax(dim=1) == expected).sum()) for batch, expected in pairs)
        return correct / len(labels)
