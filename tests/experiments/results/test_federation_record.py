"""What run.json says about clients and model, against the environment."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np

import envs
from experiments.results.federation_record import FederationRecord
from experiments.results.run_info import RunInfo, read_run_info, write_run_info

FEDERATION = {
    "dataset": "digits",
    "num_clients": 8,
    "train_samples": 40,
    "test_samples": 10,
    "local_epochs": 3,
    "budget_share": 0.2,
}


def test_record_agrees_with_the_environment() -> None:
    record = FederationRecord.of(FEDERATION)
    env = envs.parallel_env(**FEDERATION)
    assert [client.client for client in record.clients] == list(range(8))
    assert [client.num_samples for client in record.clients] == [40] * 8
    # A quarter of the clients each with all, three, two labels, one label.
    assert [len(client.labels) for client in record.clients] == [10, 10, 3, 3, 2, 2, 1, 1]
    np.testing.assert_array_equal([client.cost_j for client in record.clients], env.costs_j)
    # In quarters of two, both are among the first two of every five.
    assert {client.cpu_freq_hz for client in record.clients} == {700e6}
    # digits_cnn: 1*8*9 weights on 64 pixels, 128 inputs to 10 outputs: 4,608 + 1,280 MACs; 80 + 1,290 parameters.
    assert (record.model.macs_per_sample, record.model.parameters) == (4608 + 1280, 1370)
    assert (record.local_epochs, len(record.classes)) == (3, 10)


def test_record_names_the_clients_with_wrong_labels() -> None:
    noisy = {**FEDERATION, "noisy_clients": (5, 2)}
    # Labels are counted as the data set has them; all else is the same.
    assert FederationRecord.of(noisy) == dataclasses.replace(FederationRecord.of(FEDERATION), noisy_clients=[2, 5])
    assert FederationRecord.of({**noisy, "label_noise": 0.0}).noisy_clients == []


def test_the_seed_changes_nothing() -> None:
    assert FederationRecord.of({**FEDERATION, "seed": 7}) == FederationRecord.of({**FEDERATION, "seed": 28})


def test_record_survives_run_json(tmp_path: Path) -> None:
    record = FederationRecord.of({**FEDERATION, "noisy_clients": (5, 2)})
    write_run_info(tmp_path, RunInfo("digits", 0.8, 3, FEDERATION, ["bippo"], [7], federation_record=record))
    assert read_run_info(tmp_path).federation_record == record
