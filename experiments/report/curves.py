"""Curves over rounds: rolling means and their spread over seeds, of accuracy and of energy, one for each method."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import PercentFormatter

from experiments.report import plots
from experiments.report.churn import Churn
from experiments.report.metrics import MethodSummary, summarize
from experiments.report.statistics import bootstrap_interval
from experiments.report.styles import GREY, Style, drawn_name, drawn_seeds, styles
from experiments.report.tables import energy_unit
from experiments.results.naming import look_up
from experiments.results.rows import WINDOW

Band = Literal["std", "interval", "none"]
_WIDTH_IN = 7.2


def curve(
    summary: MethodSummary, window: int = WINDOW, band: Band = "std", column: str = "mean_accuracy"
) -> pd.DataFrame:
    """Returns the mean over seeds of the rolling means by round, and the ends of its band: ``mean``, ``low``, ``high``.

    Over the rounds that all seeds finished; no round if those are fewer than ``window``. The band is one population
    standard deviation to each side, or the 95 % bootstrap interval of the mean.
    """
    by_seed = summary.rows.pivot(index="round", columns="seed", values=column).dropna()
    smooth = by_seed.rolling(window).mean().dropna()
    mean, std = smooth.mean(axis="columns"), smooth.std(axis="columns", ddof=0)
    low, high = mean - std, mean + std
    if band == "none":
        low = high = np.nan
    elif band == "interval" and summary.num_seeds > 1 and len(smooth):
        low, high = bootstrap_interval(smooth.to_numpy().T, batch=100)
    return pd.DataFrame({"mean": mean, "low": low, "high": high}, index=smooth.index)


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
    summaries = summarize(rows)
    drawn = {summary.method: (summary, style) for summary, style in zip(summaries, styles(summaries), strict=True)}
    names = {summary.method: drawn_name(summary) for summary in summaries} if methods is None else methods
    for method, name in names.items():
        _draw(axes, *look_up("method", method, drawn), name, window, band)
    _accuracy_axes(axes, target, window)


def _draw(axes: Axes, summary: MethodSummary, style: Style, label: str, *of_curve: Any) -> None:
    """Draws the ``curve`` of a method."""
    found, color = curve(summary, *of_curve), style.color
    if found["low"].notna().any() and summary.num_seeds > 1:
        axes.fill_between(found.index, found["low"], found["high"], color=color, alpha=0.16, linewidth=0)
    points: dict[str, Any] = {"marker": style.marker, "ms": 5, "mec": "white", "mew": 0.7}
    every = max(1, len(found) // 10)
    axes.plot(found["mean"], color=color, dashes=style.dashes, linewidth=1.8, label=label, markevery=every, **points)


def _accuracy_axes(axes: Axes, target: float | None, window: int) -> None:
    if target is not None:
        look: dict[str, Any] = {"color": GREY, "linewidth": 1, "linestyle": (0, (2, 2)), "zorder": 1}
        axes.axhline(target, label=f"target {100 * target:g} %", **look)
    axes.set_ylabel(f"accuracy, mean over clients (%){_smoothing(window)}")
    axes.yaxis.set_major_formatter(PercentFormatter(1, symbol=""))
    plots.round_axis(axes)


def _smoothing(window: int) -> str:
    return f"\nmean of the last {window} rounds" if window > 1 else ""


def window_of(rows: pd.DataFrame) -> int:
    """Returns 10 rounds, or 1 for a study in which no trial has as many."""
    return WINDOW if rows.groupby("trial").size().max() >= WINDOW else 1


def accuracy_figure(
    summaries: Sequence[MethodSummary],
    target: float | None,
    title: str,
    churn: Churn | None = None,
    others: Sequence[MethodSummary] = (),
) -> Figure:
    """Returns the report's figure of accuracy; the curves of another study, ``others``, are lighter."""
    figure, axes, window = _axes_for(summaries)
    _draw_all(axes, summaries, styles(summaries), window)
    _draw_all(axes, others, [style.lighter for style in styles(others)], window)
    _accuracy_axes(axes, target, window)
    _complete(figure, title, churn)
    return figure


def energy_figure(summaries: Sequence[MethodSummary], title: str, churn: Churn | None = None) -> Figure:
    """Returns the report's figure of energy, beside the mean budget of all trials where that is finite."""
    figure, axes, window = _axes_for(summaries)
    _draw_all(axes, summaries, styles(summaries), window, "energy_j")
    budget = pd.concat([summary.rows for summary in summaries]).groupby("round")["budget_j"].mean()
    if np.isfinite(budget).all():
        axes.plot(budget.rolling(window).mean(), color="black", linewidth=1.1, linestyle=(0, (4, 2)), label="budget")
    unit = energy_unit([axes.dataLim.ymax])
    axes.yaxis.set_major_formatter(lambda joules, _: f"{joules * unit.per_joule:g}")
    axes.set_ylabel(f"energy of a round ({unit.name}){_smoothing(window)}")
    plots.round_axis(axes)
    _complete(figure, title, churn)
    return figure


def _axes_for(summaries: Sequence[MethodSummary]) -> tuple[Figure, Axes, int]:
    """Returns an empty figure, its axes, and the number of rounds over which curves are averaged."""
    figure = Figure(figsize=(_WIDTH_IN, 4.6), dpi=150, layout="constrained")
    return figure, figure.add_subplot(), window_of(pd.concat([summary.rows for summary in summaries]))


def _draw_all(
    axes: Axes,
    summaries: Sequence[MethodSummary],
    drawn_as: Sequence[Style],
    window: int,
    column: str = "mean_accuracy",
) -> None:
    """Draws every method, with its number of seeds in the legend."""
    for summary, style in zip(summaries, drawn_as, strict=True):
        is_short = bool(summary.trials["rounds"].min() < window)
        label = f"{drawn_name(summary)} ({drawn_seeds(summary)}{f', fewer than {window} rounds' * is_short})"
        _draw(axes, summary, style, label, window, "std", column)


def _complete(figure: Figure, title: str, churn: Churn | None) -> None:
    """Adds title, joins and leaves, and a legend below with as many columns as fit."""
    (axes,) = figure.axes
    axes.set_title(plots.fitted(title, _WIDTH_IN - 0.7), loc="left", fontsize=10)
    plots.mark_churn(axes, churn)
    handles, labels = axes.get_legend_handles_labels()
    columns = int(_WIDTH_IN / (0.75 + 0.062 * max(map(len, labels))))
    where: dict[str, Any] = {"loc": "outside lower center", "ncols": min(len(labels), max(1, columns))}
    figure.legend(handles=handles, frameon=False, fontsize=8.5, handlelength=4, **where)


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
