"""One worker: a model, the samples of all clients, and what is done with them on one device.

What a worker computes, it computes in ``config.torch_threads`` threads, whatever its process has: another number adds
the terms of a sum in another order, and the last bits differ.
"""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Iterator, Sequence

import numpy as np
import torch
from torch import Tensor, nn

from envs.checks import described
from envs.config import FederationConfig
from envs.data.client_samples import DataShape, FederationSamples, ResidentSamples
from envs.rng import RoundKey, keyed_rng, keyed_seed
from envs.training import aggregation
from envs.training.aggregation import ClientFailure, WeightedSum, WeightsTooLarge
from envs.training.energy_meter import MissingReading, open_meter
from envs.training.local_training import evaluate, train_locally
from envs.training.models import FlatWeights, build_model
from envs.training.torch_threads import torch_threads
from envs.training.update_reports import UpdateReports


class ClientWorker:
    """Trains clients one after the other and evaluates groups of clients, in this process, on a torch ``device``.

    Attributes:
        no_meter: Why ``config.energy_meter`` cannot be read here, if it cannot.
    """

    def __init__(self, config: FederationConfig, shape: DataShape, device: str) -> None:
        self._config, self._shape, self._device = config, shape, torch.device(device)
        if self._device.type == "cuda":
            be_deterministic()
        model = build_model(config.model_name, shape.input_shape, shape.num_classes)
        self._model = model.to(self._device)
        if len(shape.input_shape) == 3:
            self._model = self._model.to(memory_format=torch.channels_last)
        self._network: nn.Module = torch.compile(self._model) if config.compile else self._model  # type: ignore[assignment]
        self._weights = FlatWeights(self._model)
        self._meter, self.no_meter = open_meter(config.energy_meter, device)
        self._is_warm = False
        self._reports = UpdateReports(config, self._model, shape.num_classes)

    def assign(self, samples: FederationSamples) -> None:
        """Keeps the samples on the device."""
        self._train = ResidentSamples(samples.train, self._shape.max_value, str(self._device))
        self._test = ResidentSamples(samples.test, self._shape.max_value, str(self._device))
        self._all_samples = sum(samples.train.sizes)
        self._test_numbers: dict[int, tuple[Tensor, Tensor]] = {}

    def train(self, weights: Tensor, clients: Sequence[int], key: RoundKey, epochs: int) -> WeightedSum:
        """Trains every client from the flat ``weights``; with ``on_client_failure="raise"`` up to one that fails."""
        with torch_threads(self._config.torch_threads):
            return aggregation.merged(self._updates(weights, clients, key, epochs))

    def train_each(self, weights: Tensor, clients: Sequence[int], key: RoundKey, epochs: int) -> list[WeightedSum]:
        """Trains as ``train`` does and returns a sum for each client, on the CPU."""
        with torch_threads(self._config.torch_threads):
            updates = self._updates(weights, clients, key, epochs)
            return [dataclasses.replace(update, total=update.total.cpu()) for update in updates]

    def evaluate(self, weights: Tensor, groups: Sequence[Sequence[int]], *, training_samples: bool) -> np.ndarray:
        """Evaluates each group as one batch.

        Returns:
            ``float64[2, number of clients]`` accuracies and mean cross-entropies, on the test or the training samples.
        """
        self._weights.set(weights)
        with torch_threads(self._config.torch_threads):
            return np.concatenate([self._evaluate_group(group, training_samples) for group in groups], axis=1)

    def _updates(self, weights: Tensor, clients: Sequence[int], key: RoundKey, epochs: int) -> Iterator[WeightedSum]:
        start = self._weights.cut(weights)
        for client in clients:
            update = self._metered_update(start, client, key, epochs)
            yield update
            if update.failed and self._config.on_client_failure == "raise":
                return

    def _metered_update(self, start: list[Tensor], client: int, key: RoundKey, epochs: int) -> WeightedSum:
        if self._meter is None:
            return self._update(start, client, key, epochs)
        if not self._is_warm:
            self._update(start, client, key, epochs)
            self._is_warm = True
        self._meter.start()
        update = self._update(start, client, key, epochs)
        try:
            return dataclasses.replace(update, readings_j=((client, self._meter.stop()),))
        except MissingReading as why:
            return dataclasses.replace(update, unread=((client, str(why)),))

    def _update(self, start: list[Tensor], client: int, key: RoundKey, epochs: int) -> WeightedSum:
        try:
            self._weights.load(start)
            self._fit(client, key, epochs)
            weights = self._weights.get()
            update = aggregation.weighted(weights, self._train.sizes[client], self._all_samples)
            if not self._config.update_reports:
                return update
            report = self._reports.report(start, weights, self._train.sizes[client], key.seed)
            return dataclasses.replace(update, update_reports=((client, report),))
        except (FloatingPointError, WeightsTooLarge) as error:
            reason = (
                f"client {client} diverged in round {key.round} at lr={self._config.learning_rate}: {error}; lower lr"
            )
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # whatever a user's model does, the user has to know which client it was
            reason = f"client {client} failed in round {key.round}: {described(error)}"
        return aggregation.without(ClientFailure(client, reason), self._weights.get())

    def _fit(self, client: int, key: RoundKey, epochs: int) -> None:
        """One client's local training of the model, in place; layers that draw, such as dropout, do so by ``key``."""
        inputs, labels = self._train.client(client)
        keys = (key.seed, key.episode, client, key.round)
        with torch.random.fork_rng(devices=[self._device] if self._device.type == "cuda" else []):
            self._seed_layers(keyed_seed("training", *keys))
            train_locally(
                self._network,
                inputs,
                labels,
                epochs=epochs,
                batch_size=self._config.local_batch_size,
                lr=self._config.learning_rate,
                rng=keyed_rng("shuffle", *keys),
                mixed_precision=self._config.mixed_precision,
                proximal_mu=self._config.proximal_mu,
            )

    def _seed_layers(self, seed: int) -> None:
        """Seeds the device's generator alone: ``torch.manual_seed`` formats stacks to seed unused devices later."""
        torch.random.default_generator.manual_seed(seed)
        if self._device.type == "cuda":
            with torch.cuda.device(self._device):
                torch.cuda.manual_seed(seed)

    def _evaluate_group(self, clients: Sequence[int], training_samples: bool) -> np.ndarray:
        parts = [self._train.client(client) if training_samples else self._test_of(client) for client in clients]
        inputs, labels = (torch.cat(tensors) for tensors in zip(*parts, strict=True))
        sizes = [len(own) for _, own in parts]
        with torch.autocast(self._device.type, torch.bfloat16, enabled=self._config.mixed_precision):
            return np.stack(evaluate(self._network, inputs, labels, sizes))

    def _test_of(self, client: int) -> tuple[Tensor, Tensor]:
        """Test samples are read in every round, so they are kept as numbers."""
        if client not in self._test_numbers:
            self._test_numbers[client] = self._test.client(client)
        return self._test_numbers[client]


def be_deterministic() -> None:
    """Asks CUDA for the same bits in every run; torch warns of what cannot have them."""
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # read when CUDA starts
    torch.backends.cudnn.benchmark = False
    torch.use_deterministic_algorithms(True, warn_only=True)
