"""Accuracy over rounds: rolling mean and spread over seeds."""

from __future__ import annotations

from typing import NamedTuple

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from experiments.report import plots
from experiments.report.groups import Group, groups
from experiments.report.plots import Style
from experiments.results.rows import WINDOW

_WIDTH_IN = 7.2


class Curve(NamedTuple):
    """One method in one setting: mean and population std over its seeds of the rolling means, by round."""

    label: str
    num_seeds: int
    style: Style
    mean: pd.Series
    std: pd.Series


def curves(rows: pd.DataFrame, window: int = WINDOW) -> list[Curve]:
    """Returns one curve per method and setting, over the rounds that all its seeds finished."""
    return [_curve(group, window) for group in groups(rows)]


def _curve(group: Group, window: int) -> Curve:
    by_seed = group.rows.pivot(index="round", columns="seed", values="mean_accuracy").dropna()
    smooth = by_seed.rolling(window).mean().dropna()
    short = f", fewer than {window} rounds" if smooth.empty else ""
    return Curve(
        label=f"{group.name} ({group.seeds}{short})",
        num_seeds=group.num_seeds,
        style=group.style,
        mean=smooth.mean(axis="columns"),
        std=smooth.std(axis="columns", ddof=0),
    )


def accuracy_figure(
    rows: pd.DataFrame, target: float | None, title: str, churn_rows: pd.DataFrame | None = None
) -> Figure:
    """Returns the rolling mean accuracy per method with a band of one standard deviation over seeds.

    The window is 10 rounds; a study in which no trial has as many is drawn round by round. Joins and leaves are marked
    as in ``churn_rows``, by default those of ``rows``.
    """
    window = WINDOW if rows.groupby("trial").size().max() >= WINDOW else 1
    figure = Figure(figsize=(_WIDTH_IN, 4.6), dpi=150, layout="constrained")
    axes = figure.add_subplot()
    for curve in curves(rows, window):
        _draw(axes, curve)
    plots.target_line(axes, target)
    axes.set_title(plots.fitted(title, _WIDTH_IN - 0.7), loc="left", fontsize=10)
    smoothing = f"\nmean of the last {window} rounds" if window > 1 else ""
    plots.accuracy_axis(axes, f"accuracy, mean over clients (%){smoothing}")
    plots.round_axis(axes)
    plots.plain_axes(axes)
    plots.mark_churn(axes, rows if churn_rows is None else churn_rows)
    _legend(figure, axes)
    return figure


def _draw(axes: Axes, curve: Curve) -> None:
    rounds, mean = curve.mean.index.to_numpy(), curve.mean.to_numpy()
    if curve.num_seeds > 1:
        low, high = mean - curve.std, mean + curve.std
        axes.fill_between(rounds, low, high, color=curve.style.color, alpha=0.16, linewidth=0)
    plots.curve(axes, rounds, mean, curve.style, curve.label, size=5, every=max(1, len(rounds) // 10))


def _legend(figure: Figure, axes: Axes) -> None:
    """Below the axes: seven curves leave no free corner."""
    handles, labels = axes.get_legend_handles_labels()
    width_in = 0.75 + 0.062 * max(map(len, labels), default=0)
    columns = max(1, min(len(labels), int(_WIDTH_IN / width_in)))
    plots.legend_below(figure, handles, columns, handlelength=4)
