"""The figure of a study: accuracy over rounds, mean and spread over seeds. Reads rows only."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import matplotlib
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator, PercentFormatter
from numpy.typing import NDArray

from experiments.metrics import WINDOW, one_trial_per_seed, rolling_mean


class Style(NamedTuple):
    """Colour (Okabe-Ito), dash pattern and marker: any one of the three tells two curves apart."""

    color: str
    dashes: tuple[float, ...]
    marker: str


_STYLES = (
    Style("#0072B2", (), "o"),
    Style("#D55E00", (5, 2), "s"),
    Style("#009E73", (6, 2, 1.5, 2), "^"),
    Style("#CC79A7", (1.5, 1.5), "D"),
    Style("#E69F00", (8, 2, 1.5, 2, 1.5, 2), "v"),
    Style("#56B4E9", (3, 1.5), "P"),
    Style("#000000", (10, 3), "X"),
)
_METHOD_ORDER = ("bippo", "fedavg", "ippo", "fppo", "ppo", "poc", "poca")
_METHOD_NAMES = {"fedavg": "FedAvg", "poc": "PoC", "poca": "PoCA"}
_GREY = "#555555"


class Curve(NamedTuple):
    """One method in one setting: rolling means `[rounds]`, their mean and population std over `num_seeds` seeds."""

    method: str
    setting: str
    num_seeds: int
    rounds: NDArray[np.int64]
    mean: NDArray[np.float64]
    std: NDArray[np.float64]

    @property
    def label(self) -> str:
        name = f"{_METHOD_NAMES.get(self.method, self.method.upper())} {self.setting}".strip()
        return f"{name} (n = {self.num_seeds} seed{'s' if self.num_seeds > 1 else ''})"


def curves(rows: pd.DataFrame, window: int = WINDOW) -> list[Curve]:
    """One curve per method and setting, over the rounds that all its seeds finished."""
    return [_curve(group, window) for _, group in rows.groupby(["method", "setting"], sort=False)]


def _curve(rows: pd.DataFrame, window: int) -> Curve:
    rows = one_trial_per_seed(rows)
    smoothed = [rolling_mean(trial["mean_accuracy"], window) for _, trial in rows.groupby("trial", sort=False)]
    common = min(len(series) for series in smoothed)
    stacked = np.stack([series[:common] for series in smoothed])[:, window - 1 :]
    return Curve(
        method=str(rows["method"].iloc[0]),
        setting=str(rows["setting"].iloc[0]),
        num_seeds=len(smoothed),
        rounds=np.arange(window, common + 1),
        mean=stacked.mean(axis=0),
        std=stacked.std(axis=0),
    )


def accuracy_figure(rows: pd.DataFrame, target: float | None, title: str) -> Figure:
    """Rolling mean accuracy per method with a band of one standard deviation over seeds.

    The window is 10 rounds, shorter only where a trial has fewer; the axis says which.
    """
    window = max(1, min(WINDOW, int(rows.groupby("trial").size().min())))
    figure = Figure(figsize=(7.2, 4.3), dpi=150, layout="constrained")
    axes = figure.add_subplot()
    shown = curves(rows, window)
    for curve, style in zip(shown, _styles(shown), strict=True):
        _draw(axes, curve, style)
    _decorate(axes, target, title, window)
    return figure


def _styles(shown: Sequence[Curve]) -> list[Style]:
    """A method keeps its style from figure to figure; the settings of a search take the styles in turn."""
    names = [curve.method for curve in shown]
    if len(set(names)) == len(names) and set(names) <= set(_METHOD_ORDER):
        return [_STYLES[_METHOD_ORDER.index(name)] for name in names]
    return list(itertools.islice(itertools.cycle(_STYLES), len(names)))


def _draw(axes: Axes, curve: Curve, style: Style) -> None:
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
            target, color=_GREY, linewidth=1, linestyle=(0, (2, 2)), label=f"target {100 * target:.0f} %", zorder=1
        )
    axes.set_title(title, loc="left", fontsize=11)
    axes.set_xlabel("FL round")
    smoothing = f"\nmean of the last {window} rounds" if window > 1 else ""
    axes.set_ylabel(f"accuracy, mean over clients (%){smoothing}")
    axes.yaxis.set_major_formatter(PercentFormatter(xmax=1, decimals=0, symbol=""))
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(axis="y", color="#dddddd", linewidth=0.7)
    axes.set_axisbelow(True)
    axes.legend(frameon=False, loc="lower right", fontsize=9, handlelength=3.2)


def save_figure(figure: Figure, results_dir: Path, name: str = "accuracy") -> tuple[Path, Path]:
    """Write the figure as PNG and SVG (the same rows give the same files); returns the two paths."""
    png, svg = results_dir / f"{name}.png", results_dir / f"{name}.svg"
    with matplotlib.rc_context({"svg.hashsalt": "bippo", "svg.fonttype": "none"}):
        figure.savefig(png)
        figure.savefig(svg, metadata={"Date": None})
    return png, svg
