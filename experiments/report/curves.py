"""Accuracy over rounds: rolling mean and spread over seeds of each method, in a report or in a figure for a paper."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, NamedTuple

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import PercentFormatter

from experiments.report import plots
from experiments.report.statistics import bootstrap_interval
from experiments.report.styles import GREY, Group, groups
from experiments.results.naming import look_up
from experiments.results.rows import WINDOW

Band = Literal["std", "interval", "none"]
_WIDTH_IN = 7.2


class Curve(NamedTuple):
    """Of one method in one setting, by round: the mean over seeds of the rolling means, and the ends of its band."""

    rounds: np.ndarray
    mean: np.ndarray
    low: np.ndarray
    high: np.ndarray


def curve(group: Group, window: int = WINDOW, band: Band = "std") -> Curve:
    """Returns the curve over the rounds that all seeds finished; without a round if those are fewer than ``window``.

    The band is one population standard deviation to each side, or the 95 % bootstrap interval of the mean.
    """
    by_seed = group.rows.pivot(index="round", columns="seed", values="mean_accuracy").dropna()
    smooth = by_seed.rolling(window).mean().dropna()
    mean, std = smooth.mean(axis="columns").to_numpy(), smooth.std(axis="columns", ddof=0).to_numpy()
    if band == "interval" and group.num_seeds > 1 and len(smooth):
        low, high = bootstrap_interval(smooth.to_numpy().T, batch=100)
    else:
        low, high = mean - std, mean + std
    return Curve(smooth.index.to_numpy(), mean, low, high)


def draw_accuracy(
    axes: Axes,
    rows: pd.DataFrame,
    *,
    methods: Mapping[str, str] | None = None,
    band: Band = "std",
    target: float | None = None,
    window: int = WINDOW,
) -> None:
    """Draws the accuracy of each method over rounds into Matplotlib axes, without title and legend.

    Args:
        axes: The axes.
        rows: Rows of one or more methods, as ``read_results(...).rows`` has them.
        methods: The methods to draw, in this order, and their names in the legend; None for all of them.
        band: What the shaded band around the mean over seeds is.
        target: The accuracy to draw a dashed line at, a share of 1.
        window: Rounds over which each accuracy is averaged.

    Raises:
        ValueError: If there are no rows of a method.
    """
    drawn = groups(rows)
    if methods is not None:
        known = {group.method: group for group in drawn}
        drawn = [look_up("method", name, known) for name in methods]
    for group in drawn:
        _draw(axes, group, curve(group, window, band), (methods or {}).get(group.method, group.name), band)
    if target is not None:
        axes.axhline(
            target, color=GREY, linewidth=1, linestyle=(0, (2, 2)), label=f"target {100 * target:g} %", zorder=1
        )
    smoothing = f"\nmean of the last {window} rounds" if window > 1 else ""
    axes.set_ylabel(f"accuracy, mean over clients (%){smoothing}")
    axes.yaxis.set_major_formatter(PercentFormatter(1, symbol=""))
    plots.round_axis(axes)
    plots.plain_axes(axes)


def _draw(axes: Axes, group: Group, found: Curve, label: str, band: Band) -> None:
    color, dashes, marker = group.style
    if group.num_seeds > 1 and band != "none":
        axes.fill_between(found.rounds, found.low, found.high, color=color, alpha=0.16, linewidth=0)
    (line,) = axes.plot(found.rounds, found.mean, color=color, dashes=dashes, linewidth=1.8, label=label)
    every = max(1, len(found.rounds) // 10)
    line.set(marker=marker, markersize=5, markevery=every, markeredgecolor="white", markeredgewidth=0.7)


def window_of(rows: pd.DataFrame) -> int:
    """Returns 10 rounds, or 1 for a study in which no trial has as many."""
    return WINDOW if rows.groupby("trial").size().max() >= WINDOW else 1


def accuracy_figure(
    rows: pd.DataFrame, target: float | None, title: str, churn_rows: pd.DataFrame | None = None
) -> Figure:
    """Returns the report's figure; joins and leaves are marked as in ``churn_rows``, by default those of ``rows``."""
    figure = Figure(figsize=(_WIDTH_IN, 4.6), dpi=150, layout="constrained")
    axes, window = figure.add_subplot(), window_of(rows)
    draw_accuracy(axes, rows, target=target, window=window)
    axes.set_title(plots.fitted(title, _WIDTH_IN - 0.7), loc="left", fontsize=10)
    plots.mark_churn(axes, rows if churn_rows is None else churn_rows)
    for line, group in zip(axes.lines, groups(rows), strict=False):
        short = "" if np.size(line.get_xdata()) else f", fewer than {window} rounds"
        line.set_label(f"{group.name} ({group.seeds}{short})")
    handles, labels = axes.get_legend_handles_labels()
    width_in = 0.75 + 0.062 * max(map(len, labels))
    plots.legend_below(figure, handles, max(1, min(len(labels), int(_WIDTH_IN / width_in))), handlelength=4)
    return figure


def paper_figure(
    rows: pd.DataFrame,
    size_in: tuple[float, float],
    methods: Mapping[str, str] | None = None,
    band: Band = "std",
    target: float | None = None,
) -> Figure:
    """Returns ``draw_accuracy`` in a figure of ``size_in`` inches, with a legend inside the axes and no title."""
    figure = Figure(figsize=size_in, dpi=300, layout="constrained")
    axes = figure.add_subplot()
    draw_accuracy(axes, rows, methods=methods, band=band, target=target, window=window_of(rows))
    axes.set_xlabel("FL round", fontsize=8)
    axes.set_ylabel("accuracy (%)", fontsize=8)  # what it is the mean of is for the caption
    axes.tick_params(labelsize=8)
    axes.legend(frameon=False, fontsize=7, handlelength=3)
    return figure
