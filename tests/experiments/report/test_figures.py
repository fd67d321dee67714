"""Figures: what is drawn of which rows, how methods are told from each other, and a figure for a paper."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
from matplotlib.figure import Figure
from row_factory import make_rows, write_trial

from experiments.methods import METHODS, is_reference
from experiments.report import command
from experiments.report.curves import accuracy_figure, curve, draw_accuracy, paper_figure
from experiments.report.energy_figure import energy_figure
from experiments.report.plots import fitted, save_figure
from experiments.report.selection import selection_figure, selection_records, selection_share, training_energy_j
from experiments.report.statistics import Estimate
from experiments.report.styles import REFERENCE_STYLE, groups
from experiments.results.federation_record import ClientRecord, FederationRecord, ModelRecord
from experiments.results.run_info import RunInfo, write_run_info

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


def _legend(figure: Figure) -> list[str]:
    return [text.get_text() for text in figure.legends[0].get_texts()]


def test_a_curve_is_mean_and_population_std_of_the_rolling_means() -> None:
    # Window 2. Seed 7: (0.2 + 0.4) / 2 = 0.3, (0.4 + 0.6) / 2 = 0.5; seed 28: 0.1 and 0.1. Mean 0.2 and 0.3; std, half
    # the distance of two values: 0.1 and 0.2. Seed 7's fourth round has no partner and is not drawn.
    (group,) = groups(_rows(make_rows([0.2, 0.4, 0.6, 0.8]), make_rows([0.1] * 3, seed=28)))
    found = curve(group, window=2)
    assert found.rounds.tolist() == [2, 3]
    np.testing.assert_allclose(found.mean, [0.2, 0.3])
    np.testing.assert_allclose([found.low, found.high], [[0.1, 0.1], [0.3, 0.5]])


def test_a_band_may_be_the_interval_of_each_round() -> None:
    accuracy = np.random.default_rng(0).random((4, 12))
    (group,) = groups(_rows(*(make_rows(accuracy[seed], seed=seed) for seed in range(4))))
    found = curve(group, window=1, band="interval")
    expected = [Estimate.of(of_round).interval for of_round in accuracy.T]
    np.testing.assert_allclose(np.transpose([found.low, found.high]), expected, atol=0.02)


def test_the_legend_names_methods_seeds_and_target(rows: pd.DataFrame) -> None:
    young = pd.concat([rows, _rows(make_rows([0.3] * 4, "ippo"))])
    bippo, fedavg, ippo, target = _legend(accuracy_figure(young, 0.825, "title"))
    assert "BIPPO" in bippo and "2 seeds" in bippo and "FedAvg" in fedavg and "82.5 %" in target
    assert "fewer than 10 rounds" in ippo


def test_only_several_seeds_get_a_band(rows: pd.DataFrame) -> None:
    assert len(accuracy_figure(rows, 0.8, "title").axes[0].collections) == 1


def test_a_study_shorter_than_the_window_is_drawn_round_by_round() -> None:
    axes = accuracy_figure(_rows(make_rows([0.2, 0.4, 0.6])), 0.8, "title").axes[0]
    assert axes.lines[0].get_xydata().tolist() == [[1, 0.2], [2, 0.4], [3, 0.6]] and "10" not in axes.get_ylabel()


@pytest.mark.parametrize(("low", "high"), [(0.1, 0.9), (0.63, 0.8), (0.6, 0.612), (0.0, 1.0)])
def test_labels_of_ticks_are_their_values(low: float, high: float) -> None:
    figure = accuracy_figure(_rows(make_rows(np.linspace(low, high, 12))), None, "title")
    figure.draw_without_rendering()
    axes = figure.axes[0]
    labels = [label.get_text() for label in axes.get_yticklabels()]
    np.testing.assert_allclose([float(label) / 100 for label in labels], axes.get_yticks(), atol=1e-12)
    assert len(set(labels)) == len(labels) >= 3


@pytest.mark.parametrize("rounds", [1, 2, 3])
def test_ticks_are_whole_rounds_also_in_a_short_study(rounds: int) -> None:
    figure = accuracy_figure(_rows(make_rows([0.2] * rounds)), 0.8, "title")
    figure.draw_without_rendering()
    labels = [label.get_text() for label in figure.axes[0].get_xticklabels()]
    assert "1" in labels and all("." not in label for label in labels)


def test_every_method_has_a_style_of_its_own_in_every_figure() -> None:
    methods = [name for name in METHODS if not is_reference(name)] + ["mine:a", "mine:b"]
    every = {group.method: group.style for group in groups(_rows(*(make_rows([0.5], name) for name in methods)))}
    assert len({*every.values(), REFERENCE_STYLE}) == len(methods) + 1
    for first, second in zip(every.values(), [*every.values()][1:], strict=False):
        assert all(one != other for one, other in zip(first, second, strict=True))
    some = groups(_rows(*(make_rows([0.5], name) for name in ("normfilter", "cyclic", "oracle"))))
    assert [group.style for group in some] == [every["normfilter"], every["cyclic"], REFERENCE_STYLE]


def test_settings_of_a_search_and_two_studies_of_a_method_differ() -> None:
    found = groups(_rows(*(make_rows([0.5], setting=f"lr={lr}") for lr in range(9))))
    assert len({group.style for group in found}) == 9
    pairs = [make_rows([0.5], method, setting=setting) for method in ("bippo", "ippo") for setting in ("a", "b")]
    assert len({group.style for group in groups(_rows(*pairs))}) == 4


def test_joins_and_leaves_are_lines_after_their_round() -> None:
    trial = make_rows([0.5] * 20)
    for row in trial:
        row["clients"] = [0, 1, 2, 3] if 5 < row["round"] <= 12 else [0, 1] if row["round"] <= 5 else [0, 1, 2]
    axes = accuracy_figure(_rows(trial), None, "title").axes[0]
    assert [line.get_xdata()[0] for line in axes.lines[1:]] == [5.5, 12.5]
    assert [text.get_text() for text in axes.texts] == ["+2", "−1"]


def test_long_titles_break() -> None:
    assert all(len(line) <= 60 for line in fitted("word " * 40, 5.0).splitlines())


def test_methods_are_drawn_into_axes_of_the_users(rows: pd.DataFrame) -> None:
    figure, axes = plt.subplots()
    draw_accuracy(axes, rows, methods={"fedavg": "Random", "bippo": "Ours"}, band="none", target=0.8)
    assert [line.get_label() for line in axes.lines][:2] == ["Random", "Ours"] and len(axes.lines) == 3
    assert not axes.collections and not axes.get_title() and axes.get_legend() is None
    with pytest.raises(ValueError, match="ippo"):
        draw_accuracy(axes, rows, methods={"ippo": "IPPO"})
    plt.close(figure)


def test_a_figure_for_a_paper_has_its_size_and_no_title(rows: pd.DataFrame) -> None:
    figure = paper_figure(rows, (3.5, 2.0), {"bippo": "Ours"})
    (axes,) = figure.axes
    assert figure.get_size_inches().tolist() == [3.5, 2.0] and not axes.get_title() and not figure.get_suptitle()
    assert [text.get_text() for text in axes.get_legend().get_texts()] == ["Ours"]


@pytest.mark.parametrize(("ending", "begins"), [("pdf", b"%PDF"), ("svg", b"<?xml"), ("png", b"\x89PNG")])
def test_the_command_draws_a_figure_of_chosen_methods(tmp_path: Path, ending: str, begins: bytes) -> None:
    for method in ("bippo", "fedavg"):
        write_trial(tmp_path / "study", make_rows([0.5] * 12, method))
    write_run_info(tmp_path / "study", RunInfo("digits", 0.8, 12, {}, ["bippo", "fedavg"], [7]))
    files = [tmp_path / folder / f"figure.{ending}" for folder in ("one", "two")]
    chosen = ["--methods", "fedavg=Random $x$", "bippo", "--size", "3", "2", "--band", "interval", "--target", "0.6"]
    for file in files:
        assert command.main([str(tmp_path / "study"), "--figure", str(file), *chosen]) == 0
    content = files[0].read_bytes()
    assert content.startswith(begins) and content == files[1].read_bytes()
    if ending == "svg":
        assert b"Random $x$" in content and b"target 60" in content


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (["--figure", "x.doc"], ".pdf"),
        (["--figure", "x.pdf", "--methods", "bipo"], "bippo"),
        (["--methods", "bippo"], "--figure"),
        (["--figure", "x.pdf", "--size", "3", "nan"], "nan"),
        (["--target", "80"], "80"),
    ],
)
def test_what_no_figure_is_drawn_of(
    tmp_path: Path,
    arguments: list[str],
    named: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    write_trial(tmp_path, make_rows([0.5] * 12))
    monkeypatch.chdir(tmp_path)
    assert command.main([".", *arguments]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert named in line and not (tmp_path / "x.pdf").exists()


def test_selection_share_is_over_seeds_and_nan_where_no_seed_had_the_client() -> None:
    # Client 1 is selected in both rounds of both seeds; client 0 never; client 2 joins seed 28 only, in round 2.
    first, second = make_rows([0.5, 0.5]), make_rows([0.5, 0.5], seed=28)
    second[1]["clients"], second[1]["trained"] = [0, 1, 2], [1, 2]
    share = selection_share(_rows(first, second), num_clients=3, num_rounds=2)
    np.testing.assert_array_equal(share, [[0, 0], [1, 1], [np.nan, 1]])


@pytest.mark.parametrize("num_methods", [1, 3, 4, 9])
def test_selection_has_a_panel_per_method(num_methods: int) -> None:
    methods = [name for name in METHODS if not is_reference(name)][:num_methods]
    figure = selection_figure(_rows(*(make_rows([0.5] * 4, method) for method in methods)), RECORD, "title")
    titles = [axes.get_title(loc="left") for axes in figure.axes if axes.images]
    assert len(titles) == num_methods and all("1 seed" in title for title in titles)


def test_clients_with_wrong_labels_and_other_numbers_of_labels_are_marked(rows: pd.DataFrame) -> None:
    noisy = dataclasses.replace(RECORD, noisy_clients=(1,))
    plain, marked = (selection_figure(rows, record, "title").axes[0].lines for record in (RECORD, noisy))
    assert [line.get_ydata().tolist() for line in marked if line.get_marker() == "x"] == [[1]]
    assert [list(line.get_ydata()) for line in plain] == [[0.5, 0.5]]


def test_selection_works_without_a_record_of_the_clients(rows: pd.DataFrame) -> None:
    assert selection_figure(rows, None, "title").axes[0].images[0].get_array().shape == (2, 30)


def test_more_clients_than_a_figure_has_room_for_are_not_drawn() -> None:
    far = _rows(make_rows([0.5] * 4, clients=[0, 2**31 - 1], trained=[2**31 - 1]))
    assert selection_figure(far, None, "title") is None


def test_energy_that_went_to_clients_with_wrong_labels() -> None:
    # Client 1 (2 J) trains in all of 4 rounds, client 0 (1 J) in the first and fails in the second: 10 J in all.
    trial = make_rows([0.5] * 4)
    trial[0].update(trained=[0, 1], energy_j=3.0)
    trial[1].update(failed=[0], energy_j=3.5, probing_j=0.5)
    record = dataclasses.replace(RECORD, noisy_clients=(0,))
    assert training_energy_j(_rows(trial), (0,)) == 2.0
    assert selection_records(_rows(trial), record)[0]["energy to 1 noisy client"] == "20 %"
    assert not any("noisy" in name for name in selection_records(_rows(trial), RECORD)[0])


def test_energy_shows_the_budget_unless_it_is_infinite(rows: pd.DataFrame) -> None:
    figure = energy_figure(rows, "title")
    assert set(figure.axes[0].lines[0].get_ydata()) == set(figure.axes[0].lines[1].get_ydata()) == {2.0}
    unlimited = energy_figure(rows.assign(budget_j=float("inf")), "title")
    assert len(unlimited.axes[0].lines) == 1 and "budget" in _legend(figure) and "budget" not in _legend(unlimited)


@pytest.mark.parametrize(
    "draw",
    [
        lambda rows: accuracy_figure(rows, 0.8, "a heading that goes on and on, " * 5),
        lambda rows: selection_figure(rows, RECORD, "a heading"),
        lambda rows: energy_figure(rows, "a heading"),
    ],
)
@pytest.mark.filterwarnings("error")
def test_the_same_rows_give_the_same_file(
    rows: pd.DataFrame, tmp_path: Path, draw: Callable[[pd.DataFrame], Figure]
) -> None:
    for name in ("one.svg", "two.svg"):
        save_figure(draw(rows), tmp_path / name)
    assert (tmp_path / "one.svg").read_bytes() == (tmp_path / "two.svg").read_bytes()
