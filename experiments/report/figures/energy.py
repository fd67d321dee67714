"""Energy per round against the budget, a panel per method."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from experiments.report.plots import GREY, Group, fitted, groups, mark_churn, plain_axes, round_axis

_ONE_COLUMN = 3


def energy_figure(rows: pd.DataFrame, title: str) -> Figure:
    """Joules of each round: mean over seeds as a line, lowest to highest seed as a band, and the budget."""
    drawn = groups(rows)
    columns = 1 if len(drawn) <= _ONE_COLUMN else 2
    lines, width = -(-len(drawn) // columns), 7.2 if columns == 1 else 10.6
    figure = Figure(figsize=(width, 0.8 + 1.75 * lines), dpi=150, layout="constrained")
    panels = figure.subplots(lines, columns, squeeze=False, sharex=True, sharey=True).ravel()
    for place, (axes, group) in enumerate(itertools.zip_longest(panels, drawn)):
        if group is None:
            axes.remove()
            continue
        _draw(axes, group)
        mark_churn(axes, group.rows, above=True)
        axes.set(xlim=(0.5, int(rows["round"].max()) + 0.5), ylim=(0, 1.15 * _top(rows)))
        is_last = place >= len(drawn) - columns
        round_axis(axes, "FL round" if is_last else "")
        axes.tick_params(labelbottom=is_last)
        if place % columns == 0:
            axes.set_ylabel("energy (J)")
    figure.suptitle(fitted(title, width), x=0.01, ha="left", fontsize=10)
    _legend(figure, drawn)
    return figure


def _draw(axes: Axes, group: Group) -> None:
    by_round = group.rows.groupby("round")["energy_j"]
    mean, low, high = by_round.mean(), by_round.min(), by_round.max()
    rounds = mean.index.to_numpy()
    if group.num_seeds > 1:
        axes.fill_between(rounds, low, high, color=group.style.color, alpha=0.22, linewidth=0, step="mid")
    axes.step(rounds, mean, where="mid", color=group.style.color, linewidth=1.2)
    budget = group.rows.groupby("round")["budget_j"].max()
    if np.isfinite(budget).all():
        axes.plot(budget.index, budget, color="black", linewidth=1.1, linestyle=(0, (4, 2)))
    axes.set_title(f"{group.name} ({group.seeds})", loc="left", fontsize=9)
    plain_axes(axes)


def _top(rows: pd.DataFrame) -> float:
    budgets = rows["budget_j"][np.isfinite(rows["budget_j"])]
    return max(float(rows["energy_j"].max()), float(budgets.max()) if len(budgets) else 0.0) or 1.0


def _legend(figure: Figure, drawn: Sequence[Group]) -> None:
    """What line, band and dashes mean, once for all panels."""
    handles: list[Line2D | Patch] = [Line2D([], [], color=GREY, label="mean over seeds")]
    if any(np.isfinite(group.rows["budget_j"]).all() for group in drawn):
        handles.append(Line2D([], [], color="black", linestyle=(0, (4, 2)), label="budget"))
    if any(group.num_seeds > 1 for group in drawn):
        handles.append(Patch(color=GREY, alpha=0.22, linewidth=0, label="lowest to highest seed"))
    figure.legend(handles=handles, loc="outside lower center", ncols=3, frameon=False, fontsize=8.5)
