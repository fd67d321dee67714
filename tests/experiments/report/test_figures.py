"""The other figures: what is in each of them, that nothing is cut off, and that the same rows give the same file."""

from __future__ import annotations

import dataclasses
import itertools
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from matplotlib.figure import Figure
from matplotlib.image import imread
from row_factory import make_rows

from experiments.report.figures.classes import classes_figure, label_counts
from experiments.report.figures.distribution import block_edges, distribution_figure
from experiments.report.figures.energy import energy_figure
from experiments.report.figures.macs import macs_figure
from experiments.report.figures.selection import label_runs, selection_figure, selection_share, slowest_clients
from experiments.report.plots import save_figure
from experiments.report.selection_table import selection_records, training_energy_j
from experiments.results.federation_record import ClientRecord, FederationRecord, ModelRecord

RECORD = FederationRecord(
    classes=["zero", "one"],
    local_epochs=5,
    model=ModelRecord("cnn", 10, 100),
    clients=[ClientRecord(0, {"0": 30, "1": 20}, 7e8, 1.0), ClientRecord(1, {"1": 40}, 1.5e9, 2.0)],
)


def _rows(*trials: list[dict]) -> pd.DataFrame:
    return pd.DataFrame([row for trial in trials for row in trial])


@pytest.fixture
def rows() -> pd.DataFrame:
    rise = np.linspace(0.1, 0.9, 30)
    return _rows(make_rows(rise), make_rows(rise / 2, seed=28), make_rows(rise[:20], "fedavg"))


def test_blocks_of_rounds_cover_all_rounds_once() -> None:
    assert block_edges(120) == [(1, 20), (21, 40), (41, 60), (61, 80), (81, 100), (101, 120)]
    assert block_edges(3) == [(1, 3)]
    for last in (1, 59, 60, 61, 200, 300, 999, 7000):
        blocks = block_edges(last)
        assert len(blocks) <= 6
        assert [n for first, end in blocks for n in range(first, end + 1)] == list(range(1, last + 1))


def test_a_box_per_method_holds_all_rounds_of_all_seeds(rows: pd.DataFrame) -> None:
    axes = distribution_figure(rows, 0.8, "title").axes[0]
    labels = [label.get_text() for label in axes.get_xticklabels()]
    assert labels == ["BIPPO\nn = 2", "FedAvg\nn = 1\nrounds 1–20"]
    # The median is the line across the box; bippo's seeds pool 30 values and their halves.
    medians = [line.get_ydata() for line in axes.lines if line.get_color() == "black" and len(line.get_ydata()) == 2]
    rise = np.linspace(0.1, 0.9, 30)
    np.testing.assert_allclose(medians[0], np.median([*rise, *rise / 2]))
    np.testing.assert_allclose(medians[1], np.median(rise[:20]))


def test_more_clients_than_a_figure_has_room_for_are_not_drawn() -> None:
    far = _rows(make_rows([0.5] * 4, clients=[0, 2**31 - 1], trained=[2**31 - 1]))
    assert selection_figure(far, None, "title") is None


def test_selection_share_is_over_seeds_and_nan_where_nobody_had_the_client() -> None:
    # Client 1 is selected in both rounds of both seeds; client 0 never; client 2 joins seed 28 only, in round 2.
    first, second = make_rows([0.5, 0.5]), make_rows([0.5, 0.5], seed=28)
    second[1]["clients"], second[1]["trained"] = [0, 1, 2], [1, 2]
    share = selection_share(_rows(first, second), num_clients=3, num_rounds=2)
    np.testing.assert_array_equal(share, [[0, 0], [1, 1], [np.nan, 1]])


def test_selection_has_a_panel_per_method_and_marks_kinds(rows: pd.DataFrame) -> None:
    figure = selection_figure(rows, RECORD, "title")
    titles = [axes.get_title(loc="left") for axes in figure.axes]
    assert titles[:2] == ["BIPPO (n = 2 seeds)", "FedAvg (n = 1 seed)"]
    assert [label.get_text() for label in figure.axes[0].get_yticklabels()] == [
        "client 0\n2 labels",
        "client 1\n1 label",
    ]
    assert label_runs(RECORD.clients) == [((2,), 0, 0), ((1,), 1, 1)]
    assert slowest_clients(RECORD.clients) == [0] and slowest_clients(RECORD.clients[:1]) == []


def test_clients_with_wrong_labels_are_marked(rows: pd.DataFrame) -> None:
    noisy = dataclasses.replace(RECORD, noisy_clients=(1,))
    (plain,), (marked,) = ([selection_figure(rows, record, "title")] for record in (RECORD, noisy))
    assert [line.get_ydata().tolist() for line in marked.axes[0].lines if line.get_marker() == "x"] == [[1]]
    assert "crosses: wrong labels" in marked.get_suptitle() and "crosses" not in plain.get_suptitle()
    outlines = [patch.get_xy() for patch in classes_figure(noisy, "title").axes[0].patches]
    assert [x for x, _ in outlines] == [1]


def test_energy_that_went_to_clients_with_wrong_labels() -> None:
    # Client 1 (2 J) trains in all of 4 rounds, client 0 (1 J) in the first and, in vain, in the second: 10 J in all.
    trial = make_rows([0.5] * 4)
    trial[0].update(trained=[0, 1], energy_j=3.0)
    trial[1].update(failed=[0], energy_j=3.5, probing_j=0.5)
    record = dataclasses.replace(RECORD, noisy_clients=(0,))
    assert training_energy_j(_rows(trial), (0,)) == 2.0
    assert selection_records(_rows(trial), record)[0]["energy to 1 noisy client"] == "20 %"
    assert not any("noisy" in name for name in selection_records(_rows(trial), RECORD)[0])


def test_selection_works_without_a_record_of_the_clients(rows: pd.DataFrame) -> None:
    image = selection_figure(rows, None, "title").axes[0].images[0]
    assert image.get_array().shape == (2, 30)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("num_methods", [1, 2, 4, 5, 9])
def test_selection_fits_and_names_kinds_whatever_the_number_of_methods(num_methods: int, tmp_path: Path) -> None:
    methods = ["bippo", "ippo", "bippo-greedy", "ppo", "fppo", "fedavg", "poc", "poca", "pocd"]
    rows = _rows(*(make_rows([0.5] * 4, method=method) for method in methods[:num_methods]))
    figure = selection_figure(rows, RECORD, "title")
    image = imread(save_figure(figure, tmp_path, "selection")[0])[:, :, :3]
    assert (image[[0, -1]] == 1).all() and (image[:, [0, -1]] == 1).all()
    left = figure.axes[:num_methods:2] if num_methods > 3 else figure.axes[:num_methods]
    for axes in left:
        assert [label.get_text() for label in axes.get_yticklabels()] == ["client 0\n2 labels", "client 1\n1 label"]
        assert all(label.get_visible() for label in axes.get_yticklabels())


def _one_kind_each(num_clients: int, freq_hz: float = 7e8) -> FederationRecord:
    clients = [ClientRecord(n, {str(label): 9 for label in range(n + 1)}, freq_hz, 1.0) for n in range(num_clients)]
    return FederationRecord([str(label) for label in range(num_clients)], 5, ModelRecord("cnn", 10, 100), clients)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize(("num_methods", "num_clients"), [(1, 1), (2, 2), (3, 3), (3, 2), (1, 8), (4, 8)])
def test_selection_of_few_clients_at_one_cpu_frequency_is_laid_out_without_overlap(
    num_methods: int, num_clients: int
) -> None:
    live = {"clients": list(range(num_clients)), "trained": [0]}
    methods = ["bippo", "ippo", "fedavg", "poc"][:num_methods]
    figure = selection_figure(
        _rows(*(make_rows([0.5] * 4, method=method, **live) for method in methods)),
        _one_kind_each(num_clients),
        "title",
    )
    figure.canvas.draw()
    boxes = [label.get_window_extent() for label in figure.axes[0].get_yticklabels()]
    assert len(boxes) == num_clients
    assert all(above.y0 > below.y1 for above, below in itertools.pairwise(boxes))


def test_clients_that_have_no_room_for_a_name_of_their_own_share_one(rows: pd.DataFrame) -> None:
    one, two = _one_kind_each(2).clients
    record = dataclasses.replace(RECORD, clients=[*[one] * 10, *[two] * 10, one, two])
    figure = selection_figure(rows, record, "title")
    figure.canvas.draw()
    ticks = figure.axes[0].get_yticklabels()
    assert [tick.get_text().replace("\n", ": ") for tick in ticks] == [
        "clients 0–9: 1 label",
        "clients 10–19: 2 labels",
        "clients 20–21: 1, 2 labels",
    ]
    boxes = [tick.get_window_extent() for tick in ticks]
    assert all(above.y0 > below.y1 for above, below in itertools.pairwise(boxes))


def test_kinds_that_would_not_fit_the_axis_are_not_named(rows: pd.DataFrame) -> None:
    axes = selection_figure(rows, _one_kind_each(40), "title").axes[0]
    assert axes.get_ylabel() == "client" and not any("label" in tick.get_text() for tick in axes.get_yticklabels())


def test_one_client_without_a_record_has_one_whole_number() -> None:
    figure = selection_figure(_rows(make_rows([0.5] * 4, clients=[0], trained=[0])), None, "title")
    figure.canvas.draw()
    low, high = sorted(figure.axes[0].get_ylim())
    assert [tick for tick in figure.axes[0].get_yticks() if low <= tick <= high] == [0]


def test_energy_shows_the_budget_unless_it_is_infinite(rows: pd.DataFrame) -> None:
    axes = energy_figure(rows, "title").axes[0]
    assert set(axes.lines[0].get_ydata()) == set(axes.lines[1].get_ydata()) == {2.0}
    unlimited = rows.assign(budget_j=float("inf"))
    figure = energy_figure(unlimited, "title")
    assert len(figure.axes[0].lines) == 1
    assert "budget" not in [text.get_text() for text in figure.legends[0].get_texts()]


def test_class_distribution_counts_samples() -> None:
    np.testing.assert_array_equal(label_counts(RECORD), [[30, 0], [20, 40]])
    axes = classes_figure(RECORD, "title").axes[0]
    assert sorted(text.get_text() for text in axes.texts) == ["20", "30", "40"]
    assert [label.get_text() for label in axes.get_xticklabels()] == ["0 · 700", "1 · 1,500"]


def test_macs_figure_names_the_ratios_and_the_federated_model() -> None:
    forward, training, beside = macs_figure({"cnn": 4.1e10}).axes
    assert [text.get_text() for text in forward.texts] == ["14×", "33×", "692×"]
    lines = {line.get_label(): line.get_ydata() for line in training.lines}
    np.testing.assert_allclose(
        lines["BIPPO, all clients train"][[0, 2]] * 0.1, lines["BIPPO, 10 % train: 90 % less"][[0, 2]]
    )
    assert beside.get_yticklabels()[-1].get_text() == "FL: cnn" and beside.texts[-1].get_text() == "4.1·10¹⁰"


def test_nothing_is_cut_off_and_files_are_reproducible(rows: pd.DataFrame, tmp_path: Path) -> None:
    heading = "a heading that goes on and on, " * 5

    def figures() -> dict[str, Figure]:
        return {
            "distribution": distribution_figure(rows, 0.8, heading),
            "selection": selection_figure(rows, RECORD, heading),
            "energy": energy_figure(rows, heading),
            "classes": classes_figure(RECORD, "title"),
            "macs": macs_figure({"cnn": 4.1e10}),
        }

    for name, figure in figures().items():
        png, _ = save_figure(figure, tmp_path, name)
        image = imread(png)[:, :, :3]
        assert (image[[0, -1]] == 1).all() and (image[:, [0, -1]] == 1).all(), name
    again = tmp_path / "again"
    again.mkdir()
    for name in ("distribution", "selection"):
        png, svg = save_figure(figures()[name], again, name)
        assert svg.read_bytes() == (tmp_path / svg.name).read_bytes() and b"dc:date" not in svg.read_bytes(), name
        assert png.read_bytes() == (tmp_path / png.name).read_bytes(), name
