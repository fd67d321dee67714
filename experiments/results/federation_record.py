"""What a federation turned out to be, for run.json: who holds which labels on which device, and the model's size.

A study writes it when it starts; `python -m experiments.results.federation_record RESULTS_DIR` adds it to an older one.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_LATER = ("churn", "device_changes")
"""Events of a run, written to run.json as plain data; they change nothing about how it starts."""


@dataclass(frozen=True)
class ClientRecord:
    """One client: training samples of each label it holds (label index as text -> samples), at the start of the run."""

    client: int
    labels: Mapping[str, int]
    cpu_freq_hz: float
    cost_j: float

    @property
    def num_samples(self) -> int:
        return sum(self.labels.values())


@dataclass(frozen=True)
class ModelRecord:
    """The model that is trained: parameters, and MACs of one forward pass of one sample (conv and linear layers)."""

    name: str
    parameters: int
    macs_per_sample: int


@dataclass(frozen=True)
class FederationRecord:
    """A federation as resolved: everything that is the same for all methods and seeds.

    `noisy_clients` are those with wrong training labels.
    """

    classes: Sequence[str]
    local_epochs: int
    model: ModelRecord
    clients: Sequence[ClientRecord]
    noisy_clients: Sequence[int] = ()

    @classmethod
    def from_dict(cls, record: Mapping[str, Any]) -> FederationRecord:
        """From what `dataclasses.asdict` gave."""
        return cls(
            classes=list(record["classes"]),
            local_epochs=int(record["local_epochs"]),
            model=ModelRecord(**record["model"]),
            clients=[ClientRecord(**client) for client in record["clients"]],
            noisy_clients=tuple(record.get("noisy_clients", ())),
        )


def resolve(federation: Mapping[str, Any]) -> FederationRecord:
    """The record of `envs.parallel_env(**federation)`; deals samples, trains nothing.

    Labels, sizes and devices are constants of a scenario, so the seed does not matter.

    Raises:
        ValueError: If the data is missing or the federation cannot be built.
    """
    import numpy as np
    import torch

    import envs
    from bippo_rllib import count_macs
    from envs.data.partition import Partition
    from envs.training.models import build_model, num_parameters

    env = envs.parallel_env(**federation)
    config, data = env.config, envs.load_dataset(env.config.dataset, env.config.data_dir)
    labels, dealt = data.train_labels.numpy(), Partition.of(config, data, config.seed)
    model = build_model(config.model_name, data.input_shape, len(data.classes)).eval()
    macs = count_macs(model, torch.zeros(1, *data.input_shape))
    counts = [np.bincount(labels[indices], minlength=len(data.classes)) for indices in dealt.train]
    return FederationRecord(
        classes=list(data.classes),
        local_epochs=config.local_epochs,
        model=ModelRecord(config.model_name, num_parameters(model), macs),
        clients=[
            ClientRecord(client, {str(label): int(row[label]) for label in np.flatnonzero(row)}, float(freq), cost)
            for client, (row, freq, cost) in enumerate(
                zip(counts, config.start_freq_hz, env.costs_j.tolist(), strict=True)
            )
        ],
        noisy_clients=tuple(sorted(config.noisy_clients)) if config.label_noise else (),
    )


def main(argv: Sequence[str] | None = None) -> int:
    from experiments.results.run_info import read_run_info, set_resolved

    parser = argparse.ArgumentParser(
        prog="python -m experiments.results.federation_record",
        description="Add clients and model to the run.json of a study that was started without them.",
    )
    parser.add_argument("results_dir", type=Path, metavar="RESULTS_DIR", help="folder that a study wrote")
    parser.add_argument("--data-dir", metavar="DIR", help="where the data lies; default: as in run.json")
    arguments = parser.parse_args(argv)
    info = read_run_info(arguments.results_dir)
    try:
        if info is None:
            raise ValueError(f"no readable run.json in {arguments.results_dir}: it is not a results folder")
        place = {"data_dir": arguments.data_dir} if arguments.data_dir else {}
        start = {key: value for key, value in info.federation.items() if key not in _LATER}
        set_resolved(arguments.results_dir, resolve({**start, **place, "rounds": info.rounds}))
    except (ValueError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    print(f"clients and model added to {arguments.results_dir / 'run.json'}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
