"""The example's nodes that report measured joules, with counters that work, stand still, wrap, go back and vanish."""

from __future__ import annotations

import shutil
import sys

import pytest
from flwr.app import RecordDict
from source_tree import ROOT

from envs.rules.energy import round_energy_j, upload_energy_j
from envs.training import energy_counters

EPOCHS, RANGE_UJ = 5, 10**8
NODE = {"num_parameters": 1000, "num_samples": 200, "num_values": 256, "cpu_freq_hz": 7e8, "epochs": EPOCHS}
FORMULA_J = round_energy_j(1000, 200, 256, 7e8, EPOCHS)
UPLOAD_J = upload_energy_j(1000)


@pytest.fixture
def node_energy(monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "docs/examples/flower_images")
    yield __import__("node_energy")
    del sys.modules["node_energy"]


@pytest.fixture
def package(tmp_path, monkeypatch):
    """A processor package as Linux shows it."""
    monkeypatch.setattr(energy_counters, "POWERCAP", tmp_path)
    folder = tmp_path / "intel-rapl:0"
    folder.mkdir()
    for name, text in (("name", "package-0"), ("energy_uj", "90000000"), ("max_energy_range_uj", str(RANGE_UJ))):
        (folder / name).write_text(text)
    return folder


def trained(node_energy, state, train=lambda: None):
    with node_energy.reading_energy(state, EPOCHS):
        train()
    return node_energy.cost_j(state, **NODE)


def count_to(package, energy_uj):
    return lambda: (package / "energy_uj").write_text(str(energy_uj))


@pytest.mark.parametrize(("after_uj", "joules"), [(95_000_000, 5.0), (5_000_000, 15.0)])
def test_the_next_training_costs_what_the_last_one_took(node_energy, package, after_uj, joules):
    """The second counter has wrapped."""
    assert trained(node_energy, RecordDict(), count_to(package, after_uj)) == pytest.approx(UPLOAD_J + joules)


def test_without_a_counter_it_is_the_formula(node_energy, package, caplog):
    shutil.rmtree(package)
    assert trained(node_energy, RecordDict()) == pytest.approx(FORMULA_J)
    assert "rapl cannot be read" in caplog.text


def vanish(package):
    shutil.rmtree(package)


def go_blind(package):
    (package / "energy_uj").write_text("n/a")


@pytest.mark.parametrize("fail", [lambda package: None, vanish, go_blind])
@pytest.mark.parametrize("was_read", [False, True])
def test_a_counter_that_stands_still_or_vanishes_leaves_the_latest_reading(
    node_energy, package, fail, was_read, caplog
):
    state = RecordDict()
    before_j = FORMULA_J
    if was_read:
        before_j = trained(node_energy, state, count_to(package, 95_000_000))
        assert before_j == pytest.approx(UPLOAD_J + 5.0)
    assert trained(node_energy, state, lambda: fail(package)) == pytest.approx(before_j)
    assert "no reading" in caplog.text or "stood still" in caplog.text


def test_a_training_that_fails_is_not_read(node_energy, package):
    state = RecordDict()

    def fail():
        count_to(package, 91_000_000)()
        raise RuntimeError("out of memory")

    with pytest.raises(RuntimeError, match="out of memory"):
        trained(node_energy, state, fail)
    assert node_energy.cost_j(state, **NODE) == pytest.approx(FORMULA_J)


def test_a_gpu_is_read_by_nvml_and_falls_back_without_one(node_energy, caplog):
    state = RecordDict()
    with node_energy.reading_energy(state, EPOCHS, "cuda"):
        pass
    assert "nvml cannot be read" in caplog.text and node_energy.cost_j(state, **NODE) == pytest.approx(FORMULA_J)
