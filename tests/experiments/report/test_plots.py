"""Accuracy curves and what all figures share: what is drawn, that it is complete, same rows, same file."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure
from matplotlib.image import imread
from row_factory import make_rows

from experiments.report.figures.accuracy import accuracy_figure, curves
from experiments.report.figures.distribution import distribution_figure
from experiments.report.groups import groups
from experiments.report.plots import GREY, REFERENCE_STYLE, STYLES, fitted, save_figure


def _rows(*trials: list[dict]) -> pd.DataFrame:
    return pd.DataFrame([row for trial in trials for row in trial])


@pytest.fixture
def rows() -> pd.DataFrame:
    rise = np.linspace(0.1, 0.9, 30)
    return _rows(make_rows(rise), make_rows(rise / 2, seed=28), make_rows(rise * 0.8, "fedavg"))


def _texts(figure: Figure) -> list[str]:
    return [text.get_text() for text in figure.legends[0].get_texts()]


def test_curve_is_mean_and_population_std_of_the_rolling_means() -> None:
    # Window 2. Seed 7: (0.2 + 0.4) / 2 = 0.3, (0.4 + 0.6) / 2 = 0.5; seed 28: 0.1 and 0.1. Mean 0.2 and 0.3; std, half
    # the distance of two values: 0.1 and 0.2. Seed 7's fourth round has no partner and is not drawn.
    (curve,) = curves(_rows(make_rows([0.2, 0.4, 0.6, 0.8]), make_rows([0.1] * 3, seed=28)), window=2)
    assert curve.mean.index.tolist() == [2, 3]
    np.testing.assert_allclose(curve.mean, [0.2, 0.3])
    np.testing.assert_allclose(curve.std, [0.1, 0.2])


def test_legend_names_methods_number_of_seeds_and_target(rows: pd.DataFrame) -> None:
    assert _texts(accuracy_figure(rows, 0.8, "title")) == ["BIPPO (n = 2 seeds)", "FedAvg (n = 1 seed)", "target 80 %"]


def test_only_several_seeds_get_a_band(rows: pd.DataFrame) -> None:
    assert len(accuracy_figure(rows, 0.8, "title").axes[0].collections) == 1


def test_axes_name_quantity_unit_and_smoothing(rows: pd.DataFrame) -> None:
    axes = accuracy_figure(rows, 0.8, "title").axes[0]
    assert axes.get_xlabel() == "FL round"
    assert axes.get_ylabel() == "accuracy, mean over clients (%)\nmean of the last 10 rounds"


@pytest.mark.parametrize(("low", "high"), [(0.1, 0.9), (0.63, 0.8), (0.6, 0.612), (0.5, 0.5), (0.0, 1.0)])
@pytest.mark.parametrize("draw", [accuracy_figure, distribution_figure])
def test_labels_of_accuracy_ticks_are_their_values(draw: Callable[..., Figure], low: float, high: float) -> None:
    figure = draw(_rows(make_rows(np.linspace(low, high, 30))), None, "title")
    figure.draw_without_rendering()
    for axes in figure.axes:
        labels = [label.get_text() for label in axes.get_yticklabels()]
        np.testing.assert_allclose([float(label) / 100 for label in labels], axes.get_yticks(), atol=1e-12)
        assert len(set(labels)) == len(labels) >= 3


def test_a_target_between_whole_per_cents_is_not_rounded(rows: pd.DataFrame) -> None:
    assert _texts(accuracy_figure(rows, 0.825, "title"))[-1] == "target 82.5 %"


def test_a_study_shorter_than_the_window_is_drawn_round_by_round() -> None:
    axes = accuracy_figure(_rows(make_rows([0.2, 0.4, 0.6])), 0.8, "title").axes[0]
    assert axes.get_ylabel() == "accuracy, mean over clients (%)"
    assert axes.lines[0].get_xydata().tolist() == [[1, 0.2], [2, 0.4], [3, 0.6]]


@pytest.mark.parametrize("rounds", [1, 2, 3])
def test_ticks_are_whole_rounds_also_in_a_short_study(rounds: int) -> None:
    figure = accuracy_figure(_rows(make_rows([0.2] * rounds)), 0.8, "title")
    figure.draw_without_rendering()
    labels = [label.get_text() for label in figure.axes[0].get_xticklabels()]
    assert "1" in labels and all("." not in label for label in labels)


def test_a_trial_that_has_just_begun_changes_nobodys_smoothing(rows: pd.DataFrame) -> None:
    young = _rows(make_rows([0.3] * 4, "ippo"))
    figure = accuracy_figure(pd.concat([rows, young]), 0.8, "title")
    assert "IPPO (n = 1 seed, fewer than 10 rounds)" in _texts(figure)
    assert figure.axes[0].get_ylabel().endswith("mean of the last 10 rounds")


def test_styles_differ_in_colour_dashes_marker_and_hatch() -> None:
    assert list(STYLES)[:7] == ["bippo", "ippo", "ppo", "fppo", "fedavg", "poc", "poca"]
    for part in ("color", "dashes", "marker", "hatch"):
        assert len({getattr(style, part) for style in STYLES.values()}) == len(STYLES)


def test_the_settings_of_a_search_take_the_styles_in_turn() -> None:
    found = groups(_rows(*(make_rows([0.5], setting=f"lr={lr}") for lr in range(len(STYLES) + 2))))
    assert [group.style for group in found] == [*STYLES.values(), *list(STYLES.values())[:2]]


def test_a_reference_is_dashed_grey_and_a_method_of_the_users_takes_a_style_that_is_free() -> None:
    mine, bippo, bound = groups(_rows(*(make_rows([0.5], method) for method in ("mine:make", "bippo", "oracle"))))
    assert bippo.style == STYLES["bippo"] and bound.style == REFERENCE_STYLE
    assert mine.style in STYLES.values() and mine.style != bippo.style and mine.name == "mine:make"
    line = accuracy_figure(_rows(make_rows([0.5], "oracle")), None, "title").axes[0].lines[0]
    assert line.get_color() == GREY and line.is_dashed()


def test_two_studies_side_by_side_differ_in_lightness_and_dashes() -> None:
    trials = [make_rows([0.5], method, setting=setting) for method in ("bippo", "ippo") for setting in ("a", "b")]
    styles = [group.style for group in groups(_rows(*trials))]
    assert [style.color for style in styles[::2]] == [STYLES["bippo"].color, STYLES["ippo"].color]
    for own, again in (styles[:2], styles[2:]):
        np.testing.assert_allclose(1 - np.array(to_rgb(again.color)), (1 - np.array(to_rgb(own.color))) / 2, atol=0.01)
    assert styles[0].dashes != styles[1].dashes and styles[2].dashes != styles[3].dashes


def test_joins_and_leaves_are_lines_after_their_round() -> None:
    trial = make_rows([0.5] * 20)
    for row in trial:
        row["clients"] = [0, 1, 2, 3] if 5 < row["round"] <= 12 else [0, 1] if row["round"] <= 5 else [0, 1, 2]
    axes = accuracy_figure(_rows(trial), None, "title").axes[0]
    assert [line.get_xdata()[0] for line in axes.lines[1:]] == [5.5, 12.5]
    assert [text.get_text() for text in axes.texts] == ["+2", "−1"]


def test_long_titles_break() -> None:
    assert all(len(line) <= 60 for line in fitted("word " * 40, 5.0).splitlines())


def test_a_method_keeps_its_style_in_every_figure(rows: pd.DataFrame) -> None:
    both = accuracy_figure(rows, 0.8, "title").axes[0].lines
    alone = accuracy_figure(rows[rows["method"] == "fedavg"], 0.8, "title").axes[0].lines
    assert both[1].get_color() == alone[0].get_color() != both[0].get_color()


def test_files_are_complete_and_reproducible(rows: pd.DataFrame, tmp_path: Path) -> None:
    png, svg = save_figure(accuracy_figure(rows, 0.8, "title"), tmp_path)
    image = imread(png)[:, :, :3]
    # Nothing touches the border, and both curves' colours are there.
    assert (image[[0, -1]] == 1).all() and (image[:, [0, -1]] == 1).all()
    for style in (STYLES["bippo"], STYLES["fedavg"]):
        assert (np.abs(image - to_rgb(style.color)).max(axis=2) < 0.02).sum() > 100
    first = svg.read_bytes()
    save_figure(accuracy_figure(rows, 0.8, "title"), tmp_path)
    assert svg.read_bytes() == first
