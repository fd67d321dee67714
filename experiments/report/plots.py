"""What all figures share: axes over rounds, titles, legends, joins and leaves, and saving."""

from __future__ import annotations

import textwrap
from pathlib import Path
from typing import Any

import matplotlib
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from experiments.report.churn import Churn
from experiments.report.styles import GREY, as_drawn

#: So that the same rows give the same file, and text stays text.
_RC: Any = {"svg.hashsalt": "bippo", "svg.fonttype": "none", "pdf.fonttype": 42}
_CHARACTERS_PER_INCH = 12


def round_axis(axes: Axes) -> None:
    """Ticks whole rounds only, also where there are three; removes the box and draws a light grid."""
    axes.set_xlabel("FL round")
    low, high = axes.get_xlim()
    if high - low < 1:  # a single round: no tick but a fraction would fit
        axes.set_xlim(low - 1, high + 1)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True, nbins=8))
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(axis="y", color="#dddddd", linewidth=0.7)
    axes.set_axisbelow(True)


def fitted(title: str, width_in: float) -> str:
    """Returns a title in as many lines as a figure of that width needs, but for one that needs too many."""
    return textwrap.fill(as_drawn(title, longest=800), int(_CHARACTERS_PER_INCH * width_in))


def mark_churn(axes: Axes, churn: Churn | None, above: bool = False) -> None:
    """Draws a line after each round in which clients joined or left, where that is the same in all trials.

    Each line has a label, inside or above the axes: +2 joined, −2 left.
    """
    offset, ha, va = ((0, 1), "center", "bottom") if above else ((2, -2), "left", "top")
    where: dict[str, Any] = {"xycoords": ("data", "axes fraction"), "textcoords": "offset points", "ha": ha, "va": va}
    for end, mark in churn.marks.items() if churn else ():
        axes.axvline(end + 0.5, color=GREY, linewidth=0.9, linestyle=(0, (1, 1.5)), zorder=1)
        axes.annotate(mark, (end + 0.5, 1.0), offset, fontsize=8, color=GREY, **where)


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
    metadata: dict[str, Any] = {".pdf": {"CreationDate": None}, ".svg": {"Date": None}}.get(path.suffix.lower(), {})
    with matplotlib.rc_context(_RC):
        figure.savefig(path, metadata=metadata or None)
