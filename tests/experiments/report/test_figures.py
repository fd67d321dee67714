"""Figures: what is drawn of which rows, how methods differ in them, and a figure for a paper."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
from matplotlib.figure import Figure
from row_factory import frame, make_rows, write_trial

from experiments.methods import METHODS, is_reference
from experiments.report import command
from experiments.report.churn import find_churn
from experiments.report.curves import accuracy_figure, curve, draw_accuracy, energy_figure, paper_figure
from experiments.report.metrics import MethodSummary, summarize
from experiments.report.plots import fitted, save_figure
from experiments.report.selection import selection_figure, selection_records, selection_share
from experiments.report.statistics import Estimate
from experiments.report.styles import REFERENCE_STYLE, Style, styles
from experiments.results.federation_record import ClientRecord, FederationRecord, ModelRecord
from experiments.results.run_info import RunInfo, write_run_info

RECORD = FederationRecord(
    classes=["zero", "one"],
    local_epochs=5,
    model=ModelRecord("cnn", 10, 100),
    clients=[ClientRecord(0, {"0": 30, "1": 20}, 7e8, 1.0), ClientRecord(1, {"1": 40}, 1.5e9, 2.0)],
)


def _summaries(*trials: list[dict]) -> list[MethodSummary]:
    return summarize(frame(*trials))


@pytest.fixture
def rows() -> pd.DataFrame:
    rise = np.linspace(0.1, 0.9, 30)
    return frame(make_rows(rise), make_rows(rise / 2, seed=28), make_rows(rise[:20], "fedavg"))


def _legend(figure: Figure) -> list[str]:
    return [text.get_text() for text in figure.legends[0].get_texts()]


def test_a_curve_is_mean_and_population_std_of_the_rolling_means() -> None:
    # Window 2. Seed 7: (0.2 + 0.4) / 2 = 0.3, (0.4 + 0.6) / 2 = 0.5; seed 28: 0.1 and 0.1. Mean 0.2 and 0.3; std, half
    # the distance of two values: 0.1 and 0.2. Seed 7's fourth round has no partner and is not drawn.
    (summary,) = _summaries(make_rows([0.2, 0.4, 0.6, 0.8]), make_rows([0.1] * 3, seed=28))
    found = curve(summary, window=2)
    assert found.index.tolist() == [2, 3]
    np.testing.assert_allclose(found.T, [[0.2, 0.3], [0.1, 0.1], [0.3, 0.5]])


def test_a_band_may_be_the_interval_of_each_round() -> None:
    accuracy = np.random.default_rng(0).random((4, 12))
    (summary,) = _summaries(*(make_rows(accuracy[seed], seed=seed) for seed in range(4)))
    expected = [Estimate.of(of_round).interval for of_round in accuracy.T]
    found = curve(summary, window=1, band="interval")
    np.testing.assert_allclose(found[["low", "high"]], expected, atol=0.02)


def test_the_legend_names_methods_seeds_and_target(rows: pd.DataFrame) -> None:
    figure = accuracy_figure(summarize(pd.concat([rows, frame(make_rows([0.3] * 4, "ippo"))])), 0.825, "title")
    bippo, fedavg, ippo, target = _legend(figure)
    assert "BIPPO" in bippo and "2 seeds" in bippo and "FedAvg" in fedavg and "82.5 %" in target
    assert "fewer than 10 rounds" in ippo
    assert len(figure.axes[0].collections) == 1  # a band needs several seeds


@pytest.mark.parametrize("rounds", [1, 2, 3])
def test_a_study_shorter_than_the_window_is_drawn_round_by_round(rounds: int) -> None:
    figure = accuracy_figure(_summaries(make_rows([0.2, 0.4, 0.6][:rounds])), 0.8, "title")
    figure.draw_without_rendering()
    (axes,) = figure.axes
    assert axes.lines[0].get_xydata().tolist() == [[1, 0.2], [2, 0.4], [3, 0.6]][:rounds]
    assert "10" not in axes.get_ylabel()
    labels = [label.get_text() for label in axes.get_xticklabels()]
    assert "1" in labels and all("." not in label for label in labels)


@pytest.mark.parametrize(("low", "high"), [(0.1, 0.9), (0.63, 0.8), (0.6, 0.612), (0.0, 1.0)])
def test_labels_of_ticks_are_their_values(low: float, high: float) -> None:
    figure = accuracy_figure(_summaries(make_rows(np.linspace(low, high, 12))), None, "title")
    figure.draw_without_rendering()
    labels = [label.get_text() for label in figure.axes[0].get_yticklabels()]
    np.testing.assert_allclose([float(label) / 100 for label in labels], figure.axes[0].get_yticks(), atol=1e-12)
    assert len(set(labels)) == len(labels) >= 3


def _styles(*methods: str) -> dict[str, Style]:
    summaries = _summaries(*(make_rows([0.5], name) for name in methods))
    return {summary.method: style for summary, style in zip(summaries, styles(summaries), strict=True)}


def test_every_method_has_a_style_of_its_own_in_every_figure() -> None:
    methods = [name for name in METHODS if not is_reference(name)] + ["mine:a", "mine:b"]
    every = _styles(*methods)
    lighter = {style.lighter for style in every.values()}
    assert len({*every.values(), *lighter, REFERENCE_STYLE}) == 2 * len(methods) + 1
    for first, second in zip(every.values(), [*every.values()][1:], strict=False):
        assert all(one != other for one, other in zip(first, second, strict=True))
    some = _styles("normfilter", "cyclic", "oracle")
    assert some == {"normfilter": every["normfilter"], "cyclic": every["cyclic"], "oracle": REFERENCE_STYLE}
    assert len(set(styles(_summaries(*(make_rows([0.5], setting=f"lr={lr}") for lr in range(9)))))) == 9


def test_joins_and_leaves_are_lines_after_their_round() -> None:
    trial = make_rows([0.5] * 20)
    for row in trial:
        row["clients"] = [0, 1, 2, 3] if 5 < row["round"] <= 12 else [0, 1] if row["round"] <= 5 else [0, 1, 2]
    axes = accuracy_figure(_summaries(trial), None, "title", find_churn(frame(trial))).axes[0]
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
        (["--figure", "x.doc"], "pdf"),
        (["--figure", "x.pdf", "--methods", "bipo"], "bippo"),
        (["--methods", "bippo"], "--figure"),
        (["--figure", "x.pdf", "--size", "3", "nan"], "nan"),
        (["--target", "80"], "80"),
    ],
)
def test_no_figure_is_drawn_of_bad_arguments(
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
    assert named in line and not [*tmp_path.glob("x.*")]


def test_selection_share_is_over_seeds_and_nan_where_no_seed_had_the_client() -> None:
    # Client 1 is selected in both rounds of both seeds; client 0 never; client 2 joins seed 28 only, in round 2.
    first, second = make_rows([0.5, 0.5]), make_rows([0.5, 0.5], seed=28)
    # Its training fails, as does that of client 1 in the first round: both were selected.
    second[0].update(trained=[], failed=[1])
    second[1].update(clients=[0, 1, 2], trained=[1], failed=[2])
    share = selection_share(frame(first, second), num_clients=3, num_rounds=2)
    np.testing.assert_array_equal(share, [[0, 0], [1, 1], [np.nan, 1]])


@pytest.mark.parametrize("num_methods", [1, 3, 4, 9])
def test_selection_has_a_panel_per_method(num_methods: int) -> None:
    methods = [name for name in METHODS if not is_reference(name)][:num_methods]
    figure = selection_figure(_summaries(*(make_rows([0.5] * 4, method) for method in methods)), RECORD, "title")
    titles = [axes.get_title(loc="left") for axes in figure.axes if axes.images]
    assert len(titles) == num_methods and all("1 seed" in title for title in titles)


def test_clients_with_wrong_labels_and_other_numbers_of_labels_are_marked(rows: pd.DataFrame) -> None:
    noisy = dataclasses.replace(RECORD, noisy_clients=(1,))
    plain, marked = (selection_figure(summarize(rows), each, "title").axes[0].lines for each in (RECORD, noisy))
    assert [line.get_ydata().tolist() for line in marked if line.get_marker() == "x"] == [[1]]
    assert [list(line.get_ydata()) for line in plain] == [[0.5, 0.5]]


def test_selection_without_a_record_of_the_clients_and_of_too_many(rows: pd.DataFrame) -> None:
    assert selection_figure(summarize(rows), None, "title").axes[0].images[0].get_array().shape == (2, 30)
    far = _summaries(make_rows([0.5] * 4, clients=[0, 2**31 - 1], trained=[2**31 - 1]))
    assert selection_figure(far, None, "title") is None


def test_energy_that_went_to_clients_with_wrong_labels() -> None:
    # Client 1 (2 J) trains in all of 4 rounds, client 0 (1 J) in the first and fails in the second: 10 J in all.
    trial = make_rows([0.5] * 4)
    trial[0].update(trained=[0, 1], energy_j=3.0)
    trial[1].update(failed=[0], energy_j=3.5, probing_j=0.5)
    record = dataclasses.replace(RECORD, noisy_clients=(0,))
    assert selection_records(_summaries(trial), record)[0]["energy to 1 noisy client"] == "20 %"
    assert selection_records(_summaries(trial), record)[0]["clients per round"] == "1.50"  # of 4, 2 + 2 + 1 + 1
    assert not any("noisy" in name for name in selection_records(_summaries(trial), RECORD)[0])


def test_energy_shows_the_budget_unless_it_is_infinite(rows: pd.DataFrame) -> None:
    figure, unlimited = (energy_figure(summarize(each), "title") for each in (rows, rows.assign(budget_j=np.inf)))
    assert [set(line.get_ydata()[9:]) for line in figure.axes[0].lines] == [{2.0}] * 3
    assert len(unlimited.axes[0].lines) == 2 and "budget" in _legend(figure) and "budget" not in _legend(unlimited)
    small = energy_figure(summarize(rows.assign(energy_j=0.013, budget_j=0.015)), "title")
    small.draw_without_rendering()
    assert "mJ" in small.axes[0].get_ylabel() and "13" in [text.get_text() for text in small.axes[0].get_yticklabels()]


@pytest.mark.filterwarnings("error")
def test_the_same_rows_give_the_same_file(rows: pd.DataFrame, tmp_path: Path) -> None:
    for number in (1, 2):
        summaries = summarize(rows)
        long = accuracy_figure(summaries, 0.8, "a heading that goes on and on, " * 5)
        figures = (long, selection_figure(summaries, RECORD, "a heading"), energy_figure(summaries, "a heading"))
        for index, figure in enumerate(figures):
            save_figure(figure, tmp_path / f"{index}-{number}.svg")
    for index in range(3):
        assert (tmp_path / f"{index}-1.svg").read_bytes() == (tmp_path / f"{index}-2.svg").read_bytes()
