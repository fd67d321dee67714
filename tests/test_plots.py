"""The figure: what is drawn, that it is complete, and that the same rows give the same file."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure
from matplotlib.image import imread
from row_factory import make_rows

from experiments.plots import _STYLES, accuracy_figure, curves, save_figure


def _rows(*trials: list[dict]) -> pd.DataFrame:
    return pd.DataFrame([row for trial in trials for row in trial])


@pytest.fixture
def rows() -> pd.DataFrame:
    rise = np.linspace(0.1, 0.9, 30)
    return _rows(make_rows(rise), make_rows(rise / 2, seed=28), make_rows(rise * 0.8, "fedavg"))


def _texts(figure: Figure) -> list[str]:
    return [text.get_text() for text in figure.axes[0].get_legend().get_texts()]


def test_curve_is_mean_and_population_std_of_the_rolling_means() -> None:
    # Window 2. Seed 7: (0.2 + 0.4) / 2 = 0.3, (0.4 + 0.6) / 2 = 0.5; seed 28: 0.1 and 0.1. Mean 0.2 and 0.3; std, half
    # the distance of two values: 0.1 and 0.2. Seed 7's fourth round has no partner and is not drawn.
    (curve,) = curves(_rows(make_rows([0.2, 0.4, 0.6, 0.8]), make_rows([0.1] * 3, seed=28)), window=2)
    assert curve.rounds.tolist() == [2, 3]
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


def test_a_study_shorter_than_the_window_is_still_drawn() -> None:
    axes = accuracy_figure(_rows(make_rows([0.2, 0.4, 0.6])), 0.8, "title").axes[0]
    assert axes.get_ylabel().endswith("mean of the last 3 rounds")
    assert axes.lines[0].get_ydata().tolist() == [pytest.approx(0.4)]


def test_styles_differ_in_colour_dashes_and_marker() -> None:
    for part in ("color", "dashes", "marker"):
        assert len({getattr(style, part) for style in _STYLES}) == len(_STYLES)


def test_a_method_keeps_its_style_in_every_figure(rows: pd.DataFrame) -> None:
    both = accuracy_figure(rows, 0.8, "title").axes[0].lines
    alone = accuracy_figure(rows[rows["method"] == "fedavg"], 0.8, "title").axes[0].lines
    assert both[1].get_color() == alone[0].get_color() != both[0].get_color()


def test_files_are_complete_and_reproducible(rows: pd.DataFrame, tmp_path: Path) -> None:
    png, svg = save_figure(accuracy_figure(rows, 0.8, "title"), tmp_path)
    image = imread(png)[:, :, :3]
    # Nothing touches the border, and both curves' colours are there.
    assert (image[[0, -1]] == 1).all() and (image[:, [0, -1]] == 1).all()
    for style in _STYLES[:2]:
        assert (np.abs(image - to_rgb(style.color)).max(axis=2) < 0.02).sum() > 100
    first = svg.read_bytes()
    save_figure(accuracy_figure(rows, 0.8, "title"), tmp_path)
    assert svg.read_bytes() == first
