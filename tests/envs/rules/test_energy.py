"""The energy model against numbers derived by hand and against the shares the paper prints."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from envs import energy
from envs.rules.budget import BUDGET_TOLERANCE, admit_within_budget, round_budget_j

CNN_PARAMETERS, RESNET_PARAMETERS = 431_080, 11_173_962


def test_uplink_rate_of_the_paper():
    # 1e6 Hz * log2(1 + 1e-8 * 0.5 / 1e-10) = 1e6 * log2(51) = 5,672,425.342 bit/s
    assert energy.uplink_rate_bps(1e6, 1e-8, 0.5, 1e-10) == pytest.approx(5_672_425.342, rel=1e-9)


def test_communication_and_computation_energy():
    # 0.5 W * 32 * 431,080 bit / 5,672,425.342 bit/s = 1.215931 J
    assert energy.communication_energy_j(0.5, 32 * CNN_PARAMETERS, 5_672_425.342) == pytest.approx(1.215931, abs=5e-7)
    # 2e-28 * 20 * (1200 * 784 * 32 bit) * (700e6 Hz)**2 = 4e-27 * 30,105,600 * 4.9e17 = 0.0590070 J
    assert energy.computation_energy_j(2e-28, 20, 1200 * 784 * 32, 700e6) == pytest.approx(0.05900698, abs=5e-9)


@pytest.mark.parametrize(
    ("parameters", "samples", "values", "freq_hz", "joules"),
    [
        # Fashion-MNIST: 1.215931 + 5 * 0.059007 = 1.510966; at 1.5 GHz 1.215931 + 5 * 0.270950 = 2.570683
        (CNN_PARAMETERS, 1200, 784, 700e6, 1.510966),
        (CNN_PARAMETERS, 1200, 784, 1500e6, 2.570683),
        # CIFAR-10: 31.517981 J for the upload, 0.192676 J and 0.884736 J an epoch
        (RESNET_PARAMETERS, 1000, 3072, 700e6, 32.481360),
        (RESNET_PARAMETERS, 1000, 3072, 1500e6, 35.941661),
    ],
)
def test_round_energy_oracles(parameters, samples, values, freq_hz, joules):
    assert energy.round_energy_j(parameters, samples, values, freq_hz) == pytest.approx(joules, abs=5e-7)


def test_budget_shares_of_the_paper():
    """8 cheap and 12 expensive clients, 10 % of the total: 47 % and 52 % of the budget (CIFAR-10)."""
    cheap, expensive = (energy.round_energy_j(RESNET_PARAMETERS, 1000, 3072, freq) for freq in (700e6, 1500e6))
    budget = round_budget_j(np.array([cheap] * 8 + [expensive] * 12), 0.1, None, [""] * 20)
    assert budget == pytest.approx(69.11508, abs=5e-6)
    assert 100 * cheap / budget == pytest.approx(47.00, abs=5e-3)
    assert 100 * expensive / budget == pytest.approx(52.00, abs=5e-3)


def test_epochs_scale_computation_only():
    none, one, five = (energy.round_energy_j(1000, 50, 64, 1e9, epochs=epochs) for epochs in (0, 1, 5))
    assert none == energy.upload_energy_j(1000) == pytest.approx(0.5 * 32_000 / (1e6 * math.log2(51)))
    assert five - none == pytest.approx(5 * (one - none))


@pytest.mark.parametrize("bad", [float("nan"), float("inf"), -1.0])
@pytest.mark.parametrize("name", ["num_parameters", "num_samples", "values_per_sample", "cpu_freq_hz", "epochs"])
def test_round_energy_names_a_bad_argument(name, bad):
    arguments = {"num_parameters": 10, "num_samples": 10, "values_per_sample": 10, "cpu_freq_hz": 1e9, "epochs": 5}
    with pytest.raises(ValueError, match=rf"{name} is {bad}"):
        energy.round_energy_j(**(arguments | {name: bad}))


@given(
    costs=st.lists(st.floats(1e-6, 1e6), min_size=1, max_size=60),
    budget=st.one_of(st.just(0.0), st.just(math.inf), st.floats(1e-6, 1e7)),
    data=st.data(),
)
def test_admitted_never_exceeds_the_budget_and_is_maximal_in_order(costs, budget, data):
    clients = data.draw(st.lists(st.integers(0, len(costs) - 1), unique=True))
    names = [f"client_{client}" for client in range(len(costs))]
    selected, dropped, energy_j = admit_within_budget(clients, np.array(costs), budget, names, "drop")
    assert sorted(selected + dropped) == sorted(clients)
    assert energy_j == sum(costs[client] for client in selected) <= budget * (1 + BUDGET_TOLERANCE)
    assert all(energy_j + costs[client] > budget for client in dropped)


def test_budget_below_the_cheapest_client_says_who_needs_what():
    with pytest.raises(ValueError, match=r"budget of 1.5 J .* client_001 needs 2 J"):
        round_budget_j(np.array([3.0, 2.0]), 0.1, 1.5, ["client_000", "client_001"])
    assert round_budget_j(np.array([3.0, 2.0]), 0.1, 0.0, ["client_000", "client_001"]) == 0.0
