"""Clients, labels, devices, costs and budget shares of the paper's experiments, on generated images of real sizes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch

import envs
from envs import federation
from envs.config import FederationConfig
from envs.data import datasets
from envs.data.datasets import Dataset
from envs.data.partition import Partition
from envs.federation import Federation
from envs.round_result import RoundResult
from experiments.scenarios import CHURN, SCENARIOS
from experiments.study.row_callback import TrialInfo
from experiments.study.trial_config import bippo_config


@pytest.fixture(autouse=True)
def same_size_data(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Black images, but as many of each class and of the shape of the real data sets: costs depend on nothing else."""

    def fake(name: str, data_dir: Any = None) -> Dataset:
        per_class, shape = {"fashion_mnist": (6000, (1, 28, 28)), "cifar10": (5000, (3, 32, 32))}[name]
        train, test = (torch.arange(10).repeat(n) for n in (per_class, 1000))
        images = [torch.zeros(1, *shape, dtype=torch.uint8).expand(len(labels), *shape) for labels in (train, test)]
        return Dataset(name, images[0], train, images[1], test, tuple("0123456789"))

    monkeypatch.setattr(federation, "load_dataset", fake)
    yield


def built(name: str, rounds: int | None = None, **changes: Any) -> Federation:
    scenario = SCENARIOS[name]
    rounds = rounds or scenario.rounds
    config = FederationConfig(**{**scenario.federation_for(rounds), **changes}, rounds=rounds)
    return Federation(config, lambda config: pytest.fail("nothing is trained here"))


def shares(world: Federation) -> list[float]:
    """Each client's share of the budget, rounded to 1 %."""
    return (world.start_costs_j / world.budget_j).round(2).tolist()


@pytest.mark.parametrize(
    ("name", "cheap", "expensive"),
    [
        # The paper prints 33 % and 56 %, then 47 % and 52 %.
        ("fashion-mnist", 0.33, 0.56),
        ("cifar10", 0.47, 0.52),
        ("transfer", 0.47, 0.52),
        # 33,834 parameters: 32 * 33,834 / 5,672,425 bit/s * 0.5 W = 0.09543 J to send, 0.96338 J and 4.42369 J to
        # compute 5 epochs; a tenth of 8 * 1.05881 + 12 * 4.51912 J is 6.27 J.
        ("cifar10-small", 0.17, 0.72),
        ("transfer-small", 0.17, 0.72),
    ],
)
def test_20_clients_8_of_them_cheap_a_quarter_each_with_all_three_two_and_one_label(
    name: str, cheap: float, expensive: float
) -> None:
    world = built(name)
    assert [len(labels) for labels in world.labels] == [10] * 5 + [3] * 5 + [2] * 5 + [1] * 5
    assert shares(world) == ([cheap] * 2 + [expensive] * 3) * 4


def test_transfer_is_between_the_same_clients() -> None:
    source, small, large = (SCENARIOS[name].federation for name in ("fashion-mnist", "transfer-small", "transfer"))
    for key in ("num_clients", "partition", "test_samples"):
        assert source[key] == small[key] == large[key]
    assert [SCENARIOS[name].pretrained_on for name in ("transfer", "transfer-small")] == ["fashion-mnist"] * 2
    assert built("fashion-mnist").config.start_freq_hz == built("transfer-small").config.start_freq_hz
    assert {**large, "model": "cnn_small_color"} == dict(small)


def test_churn_adds_two_clients_to_the_20_and_leaves_those_as_they_are() -> None:
    before, world = built("fashion-mnist"), built("churn")
    assert world.labels[:20] == before.labels
    assert world.budget_j == before.budget_j and world.warmup_energy_j == before.warmup_energy_j
    assert world.start_costs_j[:20].tolist() == before.start_costs_j.tolist()
    assert [len(labels) for labels in world.labels[20:]] == [10, 1]
    assert shares(world)[20:] == [0.33, 0.56]
    ours, theirs = (Partition.of(each.config, each._dataset, seed=28) for each in (world, before))
    for split in ("train", "test"):
        pairs = zip(getattr(ours, split), getattr(theirs, split), strict=False)
        assert all(np.array_equal(one, other) for one, other in pairs)


def live_by_round(world: Federation) -> dict[int, list[int]]:
    """Live clients of every round in which they are others than in the one before."""
    live, found = list(world.schedule.live_at_start), {1: list(world.schedule.live_at_start)}
    for done in range(1, world.config.rounds):
        joined, left = world.schedule.changes(live, 0, 0, done)
        if joined or left:
            live = sorted({*live, *joined} - {*left})
            found[done + 1] = live
    return found


@pytest.mark.parametrize(("rounds", "joined", "left"), [(200, 101, 151), (60, 31, 46), (400, 201, 301), (7, 4, 6)])
def test_churn_comes_after_half_and_three_quarters_of_the_rounds(rounds: int, joined: int, left: int) -> None:
    at_first = list(range(20))
    expected = {1: at_first, joined: list(range(22)), left: [1, *range(3, 22)]}
    world = built("churn", rounds)
    assert live_by_round(world) == expected
    assert sum(freq == 700e6 for freq in np.array(world.config.start_freq_hz)[expected[left]]) == 8
    joins, leaves = CHURN.describe_churn(rounds).split("; ")
    assert joins == f"client_020 and client_021 join after round {joined - 1}"
    assert leaves == f"client_000 and client_002 leave after round {left - 1}"


def test_a_run_too_short_for_churn_is_refused() -> None:
    with pytest.raises(
        ValueError, match=r"1 rounds are too few for churn, where clients join after round 100 of 200; "
    ):
        CHURN.federation_for(1)
    assert [event.round for event in CHURN.churn_for(2)] == [1, 1, 1, 1]


def test_48_clients_on_three_device_types_with_600_to_1800_samples() -> None:
    world = built("scalability")
    sizes, freqs = world.num_samples, np.array(world.config.start_freq_hz)
    assert (len(sizes), sizes.min(), sizes.max(), sizes.mean()) == (48, 600, 1800, 1200.0)
    assert {freq: (freqs == freq).sum() for freq in (700e6, 1430e6, 1500e6)} == {700e6: 16, 1430e6: 16, 1500e6: 16}
    assert [len(labels) for labels in world.labels] == [10] * 12 + [3] * 12 + [2] * 12 + [1] * 12
    assert world.budget_j == pytest.approx(0.11 * world.start_costs_j.sum())
    # Neither labels nor devices go with size: quarters have the mean 1,200, device types nearly.
    assert sizes.reshape(4, 12).mean(axis=1).tolist() == [1200.0] * 4
    assert all(abs(sizes[freqs == freq].mean() - 1200) < 30 for freq in (700e6, 1430e6, 1500e6))
    assert SCENARIOS["scalability"].rounds == 300


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"late_labels": (3, 1)}, "cpu_freq_hz must be given"),
        ({"late_labels": (0,)}, "late_labels"),
        ({"late_labels": (1,) * 20, "cpu_freq_hz": (7e8,) * 20}, "all 20 clients; leave at least one"),
        ({"late_labels": (1,), "cpu_freq_hz": (7e8,) * 20, "partition": "dirichlet_over_labels"}, "only with 'paper'"),
    ],
)
def test_late_clients_that_cannot_be_are_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        FederationConfig(**changes)


def test_more_labels_than_the_data_has_are_refused() -> None:
    with pytest.raises(ValueError, match="the data set has 10 classes"):
        built("churn", late_labels=(11, 1))


@pytest.mark.parametrize("method", ["bippo", "fppo"])
def test_rounds_before_the_joins_are_those_of_the_run_without_churn(
    method: str, ray_session: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On digits: the same clients, data, costs, weights and draws, so the same rounds up to the first join."""
    monkeypatch.setattr(federation, "load_dataset", datasets.load_dataset)
    tiny: dict[str, Any] = {"dataset": "digits", "train_samples": 20, "test_samples": 10, "local_epochs": 1}
    freqs = (7e8, 15e8) * 4
    without = {**tiny, "num_clients": 8, "cpu_freq_hz": freqs, "budget_share": 0.5}
    events = (envs.ChurnEvent(5, 8, "join"), envs.ChurnEvent(5, 9, "join"))
    late = {"num_clients": 10, "cpu_freq_hz": (*freqs, 7e8, 15e8), "late_labels": (10, 1), "churn": events}
    runs: list[list[RoundResult]] = []
    for fields in (without, {**without, **late}):
        algo = bippo_config(TrialInfo("digits", method, 7), fields, {}, rounds=8).build_algo()
        runs.append([])
        for _ in range(6):
            algo.train()
            runs[-1].append(algo.parallel_env.last_round)
    ours, theirs = ([(r.trained, r.accuracies, r.reward, r.energy_j, r.costs_j) for r in run[:5]] for run in runs)
    assert ours == theirs
    assert [len(run[5].clients) for run in runs] == [8, 10]
