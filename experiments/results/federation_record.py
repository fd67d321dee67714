"""The realized configuration of a federation, for run.json: each client's labels and device, and the model's size."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from experiments.results.ranges import AtLeastOne, Count, Hertz, Joules


@dataclass(frozen=True)
class ClientRecord:
    """One client at the start of the run."""

    client: Count  #: Its id.
    labels: Mapping[str, Count]  #: Number of training samples of each label it holds, by label index as text.
    cpu_freq_hz: Hertz  #: Of its device.
    cost_j: Joules  #: Energy of one round, in joules.

    @property
    def num_samples(self) -> int:
        """Number of training samples of all labels."""
        return sum(self.labels.values())


@dataclass(frozen=True)
class ModelRecord:
    """The model that is trained; MACs are of one forward pass of one sample, in conv and linear layers."""

    name: str
    parameters: Count
    macs_per_sample: Count


@dataclass(frozen=True)
class FederationRecord:
    """A federation as it was built: everything that is the same for all methods and seeds.

    Attributes:
        noisy_clients: Ids of the clients with wrong training labels.
    """

    classes: Sequence[str]
    local_epochs: AtLeastOne
    model: ModelRecord
    clients: Sequence[ClientRecord]
    noisy_clients: Sequence[Count] = field(default_factory=list)

    def check(self) -> None:
        """Checks that the parts fit each other, for a record that was read.

        Raises:
            ValueError: For the first thing that does not.
        """
        labels = {str(label) for label in range(len(self.classes))}
        for index, client in enumerate(self.clients):
            if client.client != index:
                raise ValueError(f"clients.{index} is client {client.client}; expected client {index}")
            if unknown := client.labels.keys() - labels:
                raise ValueError(f"client {index} holds label {min(unknown)!r}, but there are {len(labels)} classes")
        if not self.clients or max(self.noisy_clients, default=0) >= len(self.clients):
            raise ValueError(f"noisy_clients are {[*self.noisy_clients]}, but there are {len(self.clients)} clients")

    @classmethod
    def of(cls, federation: Mapping[str, Any]) -> FederationRecord:
        """Returns the record of ``envs.parallel_env(**federation)``; assigns samples to clients but trains nothing.

        Labels, sizes and devices are constants of a scenario, so the seed does not matter.

        Raises:
            ValueError: If the data is missing or the federation cannot be built.
        """
        import numpy as np
        import torch

        import envs
        from bippo_rllib.policies.macs import count_macs
        from envs.config import only_read
        from envs.data.partition import Partition
        from envs.training.models import build_model, num_parameters

        env = envs.parallel_env(**only_read(federation))
        config, data = env.config, envs.load_dataset(env.config.dataset, env.config.data_dir)
        labels, partition = data.train_labels.numpy(), Partition.of(config, data, config.seed)
        model = build_model(config.model_name, data.input_shape, len(data.classes)).eval()
        macs = count_macs(model, torch.zeros(1, *data.input_shape))
        counts = [np.bincount(labels[indices], minlength=len(data.classes)) for indices in partition.train]
        return cls(
            classes=list(data.classes),
            local_epochs=config.local_epochs,
            model=ModelRecord(config.model_name, num_parameters(model), macs),
            clients=[
                ClientRecord(client, {str(label): int(row[label]) for label in np.flatnonzero(row)}, float(freq), cost)
                for client, (row, freq, cost) in enumerate(
                    zip(counts, config.start_freq_hz, env.costs_j.tolist(), strict=True)
                )
            ],
            noisy_clients=sorted(config.mislabelled_clients),
        )
