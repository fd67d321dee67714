"""Local training, averaging and accuracy in plain torch, to recompute what a federation does."""

from __future__ import annotations

import copy

import torch
from torch.nn import functional

from envs.data.datasets import load_dataset
from envs.data.partition import Partition
from envs.rng import keyed_rng
from envs.training.models import weight_tensors


class PlainFederation:
    """One client's SGD, averaging and accuracy in plain torch, on the partition of a configuration."""

    def __init__(self, config, seed):
        self.config, self.data = config, load_dataset(config.dataset)
        self.partition, self.seed = Partition.of(config, self.data, seed), seed

    def trained(self, model, client, round_number):
        model = copy.deepcopy(model).train()
        images = self.data.train_inputs[self.partition.train[client]].float() / 8 - 1
        labels = self.data.train_labels[self.partition.train[client]]
        rng, size = keyed_rng("shuffle", self.seed, 0, client, round_number), self.config.local_batch_size
        for _ in range(self.config.local_epochs):
            for batch in torch.from_numpy(rng.permutation(len(labels))).split(size):
                loss = functional.cross_entropy(model(images[batch]), labels[batch])
                gradients = torch.autograd.grad(loss, list(model.parameters()))
                with torch.no_grad():
                    for parameter, gradient in zip(model.parameters(), gradients, strict=True):
                        parameter -= self.config.learning_rate * gradient
        return model

    def average(self, start, trained):
        """By samples, parameters and batch-norm statistics; the model before the round if nobody trained."""
        result, total = copy.deepcopy(start), sum(len(self.partition.train[client]) for client in trained)
        for place, tensor in enumerate(weight_tensors(result)):
            terms = [len(self.partition.train[c]) * weight_tensors(m)[place].double() for c, m in trained.items()]
            if terms:
                tensor.copy_(sum(terms) / total)
        return result

    def accuracy(self, model, clients):
        shares = []
        for client in clients:
            images = self.data.test_inputs[self.partition.test[client]].float() / 8 - 1
            with torch.no_grad():
                right = model.eval()(images).argmax(dim=1) == self.data.test_labels[self.partition.test[client]]
            shares.append(right.double().mean().item())
        return sum(shares) / len(shares)
