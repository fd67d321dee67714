"""Accuracy distribution per method: box plots over rounds and seeds, over all rounds and by block of rounds."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.colors import to_rgba
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from experiments.report import plots
from experiments.report.groups import Group, groups
from experiments.report.plots import Style

_BLOCK_SIZES = (10, 20, 25, 50, 100, 200, 500, 1000)
_MOST_BLOCKS = 6


def distribution_figure(rows: pd.DataFrame, target: float | None, title: str) -> Figure:
    """Returns box plots: quartiles and median, whiskers at 1.5 interquartile ranges, one value per round and seed.

    Below, the same by block of rounds, where there are rounds for at least two blocks.
    """
    drawn, last_round = groups(rows), int(rows["round"].max())
    blocks = block_edges(last_round)
    lines = 2 if len(blocks) > 1 else 1
    width = max(7.2, 1.15 * len(drawn))
    figure = Figure(figsize=(width, 0.6 + 3.4 * lines), dpi=150, layout="constrained")
    panels = figure.subplots(lines, 1, squeeze=False)[:, 0]
    _draw_all(panels[0], drawn, last_round)
    panels[0].set_title(plots.fitted(title, width - 0.7), loc="left", fontsize=10)
    if lines > 1:
        _draw_blocks(panels[1], drawn, blocks)
        plots.legend_below(figure, [Patch(label=group.name, **_fill(group.style)) for group in drawn], columns=7)
    for axes in panels:
        plots.target_line(axes, target)
        plots.accuracy_axis(axes, "accuracy, mean over clients (%)")
        plots.plain_axes(axes)
    return figure


def block_edges(last_round: int) -> list[tuple[int, int]]:
    """Returns first and last round of each block: at most six of equal length, the last one may be shorter."""
    size = next((size for size in _BLOCK_SIZES if -(-last_round // size) <= _MOST_BLOCKS), last_round)
    return [(start, min(start + size - 1, last_round)) for start in range(1, last_round + 1, size)]


def _draw_all(axes: Axes, drawn: Sequence[Group], last_round: int) -> None:
    for place, group in enumerate(drawn):
        _box(axes, group.rows["mean_accuracy"].to_numpy(float), place, 0.55, group.style)
    axes.set_xticks(range(len(drawn)), [_tick(group, last_round) for group in drawn], fontsize=9)
    axes.set_xlim(-0.6, len(drawn) - 0.4)


def _tick(group: Group, last_round: int) -> str:
    """Name, seeds, and the rounds where they are fewer than others have."""
    longest = int(group.rows["round"].max())
    return f"{group.name}\nn = {group.num_seeds}" + (f"\nrounds 1–{longest}" if longest < last_round else "")


def _draw_blocks(axes: Axes, drawn: Sequence[Group], blocks: Sequence[tuple[int, int]]) -> None:
    width = 0.84 / len(drawn)
    for place, (first, last) in enumerate(blocks):
        for index, group in enumerate(drawn):
            values = group.rows.loc[group.rows["round"].between(first, last), "mean_accuracy"].to_numpy(float)
            if len(values):
                _box(axes, values, place - 0.42 + (index + 0.5) * width, 0.82 * width, group.style)
        if place:
            axes.axvline(place - 0.5, color=plots.LIGHT_GREY, linewidth=0.7)
    axes.set_xticks(range(len(blocks)), [f"{first}–{last}" for first, last in blocks])
    axes.set_xlim(-0.5, len(blocks) - 0.5)
    axes.set_xlabel("FL rounds")


def _box(axes: Axes, values: np.ndarray, position: float, width: float, style: Style) -> None:
    line = {"color": style.color, "linewidth": 1.1}
    parts = axes.boxplot(
        [values],
        positions=[position],
        widths=width,
        patch_artist=True,
        medianprops={"color": "black", "linewidth": 1.6},
        whiskerprops=line,
        capprops=line,
        flierprops={"marker": ".", "markersize": 2.5, "markerfacecolor": style.color, "markeredgecolor": style.color},
        manage_ticks=False,
    )
    parts["boxes"][0].set(**_fill(style))


def _fill(style: Style) -> dict[str, Any]:
    """A light face, so that the median shows on it, and the hatch in the method's colour."""
    return {"facecolor": to_rgba(style.color, 0.25), "edgecolor": style.color, "hatch": style.hatch, "linewidth": 1.1}
