"""Accuracy over rounds: rolling mean and spread over seeds."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import NDArray

from experiments.report.metrics import WINDOW, rolling_mean
from experiments.report.plots import (
    GREY,
    Group,
    Style,
    accuracy_axis,
    fitted,
    groups,
    mark_churn,
    plain_axes,
    round_axis,
    trials,
)

_WIDTH_IN = 7.2


class Curve(NamedTuple):
    """One method in one setting: rolling means `[rounds]`, their mean and population std over its seeds."""

    label: str
    num_seeds: int
    style: Style
    rounds: NDArray[np.int64]
    mean: NDArray[np.float64]
    std: NDArray[np.float64]


def curves(rows: pd.DataFrame, window: int = WINDOW) -> list[Curve]:
    """One curve per method and setting, over the rounds that all its seeds finished."""
    return [_curve(group, window) for group in groups(rows)]


def _curve(group: Group, window: int) -> Curve:
    smoothed = [rolling_mean(trial["mean_accuracy"], window) for trial in trials(group.rows)]
    common = min(len(series) for series in smoothed)
    stacked = np.stack([series[:common] for series in smoothed])[:, window - 1 :]
    short = f", fewer than {window} rounds" if common < window else ""
    return Curve(
        label=f"{group.name} ({group.seeds}{short})",
        num_seeds=group.num_seeds,
        style=group.style,
        rounds=np.arange(window, common + 1),
        mean=stacked.mean(axis=0),
        std=stacked.std(axis=0),
    )


def accuracy_figure(
    rows: pd.DataFrame, target: float | None, title: str, churn_rows: pd.DataFrame | None = None
) -> Figure:
    """Rolling mean accuracy per method with a band of one standard deviation over seeds.

    The window is 10 rounds; a study in which no trial has as many is drawn round by round. Joins and leaves are marked
    as in `churn_rows`, by default those of `rows`.
    """
    window = WINDOW if rows.groupby("trial").size().max() >= WINDOW else 1
    figure = Figure(figsize=(_WIDTH_IN, 4.6), dpi=150, layout="constrained")
    axes = figure.add_subplot()
    for curve in curves(rows, window):
        _draw(axes, curve)
    _decorate(axes, target, title, window)
    mark_churn(axes, rows if churn_rows is None else churn_rows)
    _legend(figure, axes)
    return figure


def _draw(axes: Axes, curve: Curve) -> None:
    style = curve.style
    if curve.num_seeds > 1:
        low, high = curve.mean - curve.std, curve.mean + curve.std
        axes.fill_between(curve.rounds, low, high, color=style.color, alpha=0.16, linewidth=0)
    axes.plot(
        curve.rounds,
        curve.mean,
        color=style.color,
        dashes=style.dashes,
        linewidth=1.8,
        marker=style.marker,
        markersize=5,
        markeredgecolor="white",
        markeredgewidth=0.7,
        markevery=max(1, len(curve.rounds) // 10),
        label=curve.label,
    )


def _decorate(axes: Axes, target: float | None, title: str, window: int) -> None:
    if target is not None:
        axes.axhline(
            target, color=GREY, linewidth=1, linestyle=(0, (2, 2)), label=f"target {100 * target:g} %", zorder=1
        )
    axes.set_title(fitted(title, _WIDTH_IN - 0.7), loc="left", fontsize=10)
    smoothing = f"\nmean of the last {window} rounds" if window > 1 else ""
    accuracy_axis(axes, f"accuracy, mean over clients (%){smoothing}")
    round_axis(axes)
    plain_axes(axes)


def _legend(figure: Figure, axes: Axes) -> None:
    """Below the axes: seven curves leave no free corner."""
    handles, labels = axes.get_legend_handles_labels()
    width_in = 0.75 + 0.062 * max(map(len, labels), default=0)
    columns = max(1, min(len(labels), int(_WIDTH_IN / width_in)))
    figure.legend(
        handles, labels, loc="outside lower center", ncols=columns, frameon=False, fontsize=8.5, handlelength=4
    )
