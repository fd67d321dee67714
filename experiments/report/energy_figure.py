"""Energy per round against the budget, a panel per method."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from experiments.report import plots
from experiments.report.numbers import EnergyUnit, energy_unit
from experiments.report.styles import GREY, Group, groups

_BUDGET_DASHES = (0, (4, 2))


def energy_figure(rows: pd.DataFrame, title: str) -> Figure:
    """Returns the energy of each round: mean over seeds, lowest to highest seed as a band, and the budget."""
    drawn, top = groups(rows), rows[["energy_j", "budget_j"]].replace(np.inf, 0.0).to_numpy().max()
    unit = energy_unit([top])
    figure, panels = plots.panels(len(drawn), f"energy ({unit.name})", (7.2, 10.6), height_in=1.75, margin_in=0.8)
    for axes, group in zip(panels, drawn, strict=True):
        _draw(axes, group, unit)
        plots.mark_churn(axes, group.rows, above=True)
        axes.set(xlim=(0.5, int(rows["round"].max()) + 0.5), ylim=(0, 1.15 * (top * unit.per_joule or 1.0)))
    figure.suptitle(plots.fitted(title, figure.get_figwidth()), x=0.01, ha="left", fontsize=10)
    _legend(figure, drawn)
    return figure


def _draw(axes: Axes, group: Group, unit: EnergyUnit) -> None:
    by_round = (group.rows[["energy_j", "budget_j"]] * unit.per_joule).groupby(group.rows["round"])
    energy, budget = by_round["energy_j"].agg(["mean", "min", "max"]), by_round["budget_j"].max()
    if group.num_seeds > 1:
        rounds, low, high = energy.index, energy["min"], energy["max"]
        axes.fill_between(rounds, low, high, color=group.style.color, alpha=0.22, linewidth=0, step="mid")
    axes.step(energy.index, energy["mean"], where="mid", color=group.style.color, linewidth=1.2)
    if np.isfinite(budget).all():
        axes.plot(budget.index, budget, color="black", linewidth=1.1, linestyle=_BUDGET_DASHES)
    axes.set_title(f"{group.name} ({group.seeds})", loc="left", fontsize=9)
    plots.plain_axes(axes)


def _legend(figure: Figure, drawn: Sequence[Group]) -> None:
    """What line, band and dashes mean, once for all panels."""
    handles: list[Line2D | Patch] = [Line2D([], [], color=GREY, label="mean over seeds")]
    if any(np.isfinite(group.rows["budget_j"]).all() for group in drawn):
        handles.append(Line2D([], [], color="black", linestyle=_BUDGET_DASHES, label="budget"))
    if any(group.num_seeds > 1 for group in drawn):
        handles.append(Patch(color=GREY, alpha=0.22, linewidth=0, label="lowest to highest seed"))
    plots.legend_below(figure, handles, columns=3)
