"""Rounds of pfl-research's simulation, for an interpreter that need not have what this project needs."""

from __future__ import annotations

from typing import Any

import torch
from pfl.aggregate.simulate import SimulatedBackend
from pfl.aggregate.weighting import WeightByDatapoints
from pfl.algorithm.base import NNAlgorithmParams
from pfl.algorithm.federated_averaging import FederatedAveraging
from pfl.callback.base import TrainingProcessCallback
from pfl.data.federated_dataset import FederatedDataset
from pfl.data.sampling import get_user_sampler
from pfl.hyperparam import NNEvalHyperParams, NNTrainHyperParams
from pfl.metrics import Metrics, Weighted
from pfl.model.pytorch import PyTorchModel

from experiments.benchmark.other_process import turns


class Turns(TrainingProcessCallback):
    """Waits before the first round and after every one until the next is requested."""

    def __init__(self, clock: str) -> None:
        self._next_turn = turns(clock)

    def on_train_begin(self, *, model: Any) -> Metrics:
        """Overrides ``TrainingProcessCallback.on_train_begin`` to wait."""
        self._next_turn()
        return Metrics()

    def after_central_iteration(self, *arguments: Any, **keywords: Any) -> tuple[bool, Metrics]:
        """Overrides ``TrainingProcessCallback.after_central_iteration`` to wait; stops when there is no other turn."""
        return not self._next_turn(), Metrics()


def main(data_file: str, clock: str) -> None:
    """Trains all clients of the file in every round; a client's samples come in the same order in every epoch."""
    torch.set_num_threads(1)
    work = torch.load(data_file, weights_only=False)
    users = dict(enumerate(work["clients"]))
    data = FederatedDataset.from_slices(users, get_user_sampler("minimize_reuse", list(users)))
    network = work["model"]
    network.loss = lambda images, labels: torch.nn.functional.cross_entropy(network(images), labels)
    network.metrics = lambda images, labels: {"loss": Weighted(float(network.loss(images, labels)), 1)}
    FederatedAveraging().run(
        NNAlgorithmParams(
            central_num_iterations=10**9, evaluation_frequency=10**9, train_cohort_size=len(users), val_cohort_size=0
        ),
        SimulatedBackend(training_data=data, val_data=data, postprocessors=[WeightByDatapoints()]),
        PyTorchModel(network, torch.optim.SGD, torch.optim.SGD(network.parameters(), 1.0)),
        NNTrainHyperParams(
            local_num_epochs=work["epochs"], local_learning_rate=work["lr"], local_batch_size=work["batch_size"]
        ),
        NNEvalHyperParams(local_batch_size=None),
        callbacks=[Turns(clock)],
    )
