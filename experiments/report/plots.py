"""What all figures share: panels, axes, titles, and saving."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import matplotlib
import pandas as pd
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from experiments.report.churn_moments import find_churn
from experiments.report.figure_text import as_drawn
from experiments.report.styles import GREY

#: So that the same rows give the same file, and text stays text.
_RC: Any = {"svg.hashsalt": "bippo", "svg.fonttype": "none", "pdf.fonttype": 42}
_CHARACTERS_PER_INCH = 12


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
    for index, panel in enumerate(axes[:count]):
        is_last = index >= count - columns
        round_axis(panel, "FL round" if is_last else "")
        panel.tick_params(labelbottom=is_last)
        panel.set_ylabel("" if index % columns else ylabel)
    return figure, axes[:count]


def plain_axes(axes: Axes) -> None:
    """Removes the box and draws a light grid."""
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(axis="y", color="#dddddd", linewidth=0.7)
    axes.set_axisbelow(True)


def round_axis(axes: Axes, label: str = "FL round") -> None:
    """Ticks whole rounds only, also where there are three."""
    axes.set_xlabel(label)
    low, high = axes.get_xlim()
    if high - low < 1:  # a single round: no tick but a fraction would fit
        axes.set_xlim(low - 1, high + 1)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True, nbins=8))


def legend_below(figure: Figure, handles: Sequence[Artist], columns: int, handlelength: float = 2) -> None:
    """Draws one legend for the whole figure."""
    where: dict[str, Any] = {"loc": "outside lower center", "ncols": columns, "handlelength": handlelength}
    figure.legend(handles=handles, frameon=False, fontsize=8.5, **where)


def fitted(title: str, width_in: float) -> str:
    """Returns a title in as many lines as a figure of that width needs, but for one that needs too many."""
    return textwrap.fill(as_drawn(title, longest=800), int(_CHARACTERS_PER_INCH * width_in))


def mark_churn(axes: Axes, rows: pd.DataFrame, above: bool = False) -> None:
    """Draws a line after each round in which clients joined or left, where that is the same in all trials.

    It says how many, inside or above the axes: +2 joined, −2 left.
    """
    churn = find_churn(rows)
    if churn is None or not churn.drawable:
        return
    offset, ha, va = ((0, 1), "center", "bottom") if above else ((2, -2), "left", "top")
    where: dict[str, Any] = {"xycoords": ("data", "axes fraction"), "textcoords": "offset points", "ha": ha, "va": va}
    for moment in churn.moments:
        axes.axvline(moment.round + 0.5, color=GREY, linewidth=0.9, linestyle=(0, (1, 1.5)), zorder=1)
        axes.annotate(moment.label, (moment.round + 0.5, 1.0), offset, fontsize=8, color=GREY, **where)


def save_image(figure: Figure, folder: Path, name: str, description: str) -> str:
    """Writes the figure as PNG and SVG; returns the Markdown that shows it."""
    save_figure(figure, folder / f"{name}.png")
    figure.set_layout_engine("none")  # it was laid out for the PNG; doing so again takes as long as drawing
    save_figure(figure, folder / f"{name}.svg")
    return f"![{description}]({name}.png)"


def save_figure(figure: Figure, path: Path) -> None:
    """Writes the figure in the format of the file's suffix; the same rows give the same file.

    Raises:
        ValueError: If Matplotlib has no such format.
    """
    kind = path.suffix.lower()
    metadata: dict[str, Any] = {".pdf": {"CreationDate": None}, ".svg": {"Date": None}}.get(kind, {})
    with matplotlib.rc_context(_RC):
        figure.savefig(path, metadata=metadata or None)
