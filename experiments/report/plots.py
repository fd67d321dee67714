"""What all figures share: a style per method, panels, axes, curves, and saving."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal, NamedTuple

import matplotlib
import pandas as pd
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import Formatter, MaxNLocator, NullLocator

from experiments.report.churn_moments import find_churn
from experiments.report.figure_text import as_drawn

GREY = "#555555"
LIGHT_GREY = "#bbbbbb"
#: Clients with wrong labels.
NOISY = "#D55E00"
GRID = "#dddddd"
_CHARACTERS_PER_INCH = 12
_LONGEST_TITLE = 800


class Style(NamedTuple):
    """Colour (Okabe-Ito), dash pattern, marker and hatch: any one of them tells two methods apart, also in grey."""

    color: str
    dashes: tuple[float, ...]
    marker: str
    hatch: str = ""


#: A method keeps its style from figure to figure.
STYLES = MappingProxyType(
    {
        "bippo": Style("#0072B2", (), "o", ""),
        "ippo": Style("#009E73", (6, 2, 1.5, 2), "^", "///"),
        "ppo": Style("#E69F00", (8, 2, 1.5, 2, 1.5, 2), "v", "..."),
        "fppo": Style("#CC79A7", (1.5, 1.5), "D", "xxx"),
        "fedavg": Style("#D55E00", (5, 2), "s", "\\\\\\"),
        "poc": Style("#56B4E9", (3, 1.5), "P", "oo"),
        "poca": Style("#000000", (10, 3), "X", "|||"),
        "pocd": Style("#7F7F7F", (4, 1, 1, 1, 1, 1), "<", "**"),
        "bippo-greedy": Style("#882255", (12, 2, 3, 2), ">", "+++"),
        "bippo-r": Style("#7A3DB8", (16, 1.5), "p", "---"),
        "rep": Style("#999933", (2, 1), "d", "//.."),
        "oort": Style("#8C564B", (7, 1, 1, 1, 1, 1), "h", "-."),
        "ippo-odds": Style("#44AA99", (9, 2, 1, 2), "8", "\\\\.."),
    }
)
#: A bound that is no method.
REFERENCE_STYLE = Style(GREY, (5, 3), "", "/")


def panels(
    count: int, ylabel: str, width_in: tuple[float, float], height_in: float, margin_in: float
) -> tuple[Figure, list[Axes]]:
    """Returns a figure with ``count`` panels over rounds that share their axes: in one column up to three, else in two.

    Its width is given for one and for two columns, its height by panel, with a margin above and below all of them.
    """
    columns = 1 if count <= 3 else 2
    lines = -(-count // columns)
    figure = Figure(figsize=(width_in[columns - 1], margin_in + lines * height_in), dpi=150, layout="constrained")
    axes = figure.subplots(lines, columns, squeeze=False, sharex=True, sharey=True).ravel().tolist()
    for surplus in axes[count:]:
        surplus.remove()
    for place, panel in enumerate(axes[:count]):
        is_last = place >= count - columns
        round_axis(panel, "FL round" if is_last else "")
        panel.tick_params(labelbottom=is_last)
        panel.set_ylabel("" if place % columns else ylabel)
    return figure, axes[:count]


def curve(
    axes: Axes, x: Sequence[float], y: Sequence[float], style: Style, label: str, size: float = 6, every: int = 1
) -> None:
    """Draws a line with markers of ``size`` on ``every`` so many points."""
    (line,) = axes.plot(x, y, color=style.color, dashes=style.dashes, linewidth=1.8, label=label)
    line.set(marker=style.marker, markersize=size, markevery=every, markeredgecolor="white", markeredgewidth=0.7)


def plain_axes(axes: Axes, grid: Literal["x", "y"] = "y") -> None:
    """Removes the box and draws a light grid along one axis."""
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(axis=grid, color=GRID, linewidth=0.7)
    axes.set_axisbelow(True)


def round_axis(axes: Axes, label: str = "FL round") -> None:
    """Ticks whole rounds only, also where there are three."""
    axes.set_xlabel(label)
    low, high = axes.get_xlim()
    if high - low < 1:  # a single round: no tick but a fraction would fit
        axes.set_xlim(low - 1, high + 1)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True, nbins=8))


def clients_axis(axes: Axes, clients: Sequence[int]) -> None:
    """A logarithmic axis with ticks at these numbers of clients only."""
    axes.set(xscale="log", xlabel="clients")
    axes.set_xticks(clients, [f"{n:,}" for n in clients])
    axes.xaxis.set_minor_locator(NullLocator())


def accuracy_axis(axes: Axes, label: str) -> None:
    """Writes accuracies, shares of 1 in rows, as per cent."""
    axes.set_ylabel(label)
    axes.yaxis.set_major_locator(MaxNLocator(nbins=9, steps=[1, 2, 5, 10]))
    axes.yaxis.set_major_formatter(PercentTicks())


def target_line(axes: Axes, target: float | None) -> None:
    """Draws the target accuracy, if there is one."""
    if target is not None:
        name = f"target {100 * target:g} %"
        axes.axhline(target, color=GREY, linewidth=1, linestyle=(0, (2, 2)), label=name, zorder=1)


class PercentTicks(Formatter):
    """Shares of 1 as per cent, all with as many decimals as the one that needs most: a rounded tick misleads."""

    def __call__(self, x: float, pos: int | None = None) -> str:
        """Returns the label of one value."""
        return f"{100 * x:.6f}".rstrip("0").rstrip(".")

    def format_ticks(self, values: Sequence[float]) -> list[str]:
        """Returns the labels of one axis."""
        decimals = max((len(self(value).partition(".")[2]) for value in values), default=0)
        return [f"{100 * value:.{decimals}f}" for value in values]


def legend_below(figure: Figure, handles: Sequence[Artist], columns: int, handlelength: float = 2) -> None:
    """Draws one legend for the whole figure."""
    place: dict[str, Any] = {"loc": "outside lower center", "ncols": columns, "handlelength": handlelength}
    figure.legend(handles=handles, frameon=False, fontsize=8.5, **place)


def fitted(title: str, width_in: float) -> str:
    """Returns a title in as many lines as a figure of that width needs, but for one that needs too many."""
    drawn = as_drawn(title, longest=_LONGEST_TITLE)
    return textwrap.fill(drawn, int(_CHARACTERS_PER_INCH * width_in))


def mark_churn(axes: Axes, rows: pd.DataFrame, above: bool = False) -> None:
    """Draws a line after each round in which clients joined or left, where that is the same in all trials.

    It says how many, inside or above the axes: +2 joined, −2 left.
    """
    churn = find_churn(rows)
    if churn is None or not churn.drawable:
        return
    offset, ha, va = ((0, 1), "center", "bottom") if above else ((2, -2), "left", "top")
    place: dict[str, Any] = {"xycoords": ("data", "axes fraction"), "textcoords": "offset points", "ha": ha, "va": va}
    for moment in churn.moments:
        axes.axvline(moment.round + 0.5, color=GREY, linewidth=0.9, linestyle=(0, (1, 1.5)), zorder=1)
        axes.annotate(moment.label, (moment.round + 0.5, 1.0), offset, fontsize=8, color=GREY, **place)


def save_image(figure: Figure, folder: Path, name: str, description: str) -> str:
    """Writes the figure; returns the Markdown that shows it."""
    png, _ = save_figure(figure, folder, name)
    return f"![{description}]({png.name})"


def save_figure(figure: Figure, results_dir: Path, name: str = "accuracy") -> tuple[Path, Path]:
    """Writes the figure as PNG and SVG (the same rows give the same files); returns the two paths."""
    png, svg = results_dir / f"{name}.png", results_dir / f"{name}.svg"
    with matplotlib.rc_context({"svg.hashsalt": "bippo", "svg.fonttype": "none"}):
        figure.savefig(png)
        figure.set_layout_engine("none")  # it was laid out for the PNG; doing so again takes as long as drawing
        figure.savefig(svg, metadata={"Date": None})
    return png, svg
