"""The figure of ``benchmark rl``: RL time per round over clients."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, NullFormatter, NullLocator, StrMethodFormatter

from experiments.benchmark.rl.rows import BIPPO, CENTRAL, STOCK, Measurement
from experiments.report.plots import plain_axes
from experiments.report.styles import Style, style_at


class Line(NamedTuple):
    """A curve of the figure."""

    label: str
    style: Style
    value: Callable[[Measurement], float | None]
    implementation: str


LINES = (
    Line("stock RLlib", style_at(1), lambda row: row.rl_ms, STOCK),
    Line("central network", style_at(5), lambda row: row.rl_ms, CENTRAL),
    Line("BIPPO", style_at(0), lambda row: row.rl_ms, BIPPO),
    Line("bare kernel", style_at(6), lambda row: row.kernel_ms, BIPPO),
)


def overhead_figure(rows: Sequence[Measurement]) -> Figure:
    """Log-log, a panel per rule of participation."""
    rules = list(dict.fromkeys(row.case.rule for row in rows))
    figure = Figure(figsize=(0.6 + 4.1 * len(rules), 4.0), dpi=150, layout="constrained")
    panels = figure.subplots(1, len(rules), sharey=True, squeeze=False)[0]
    for axes, rule in zip(panels, rules, strict=True):
        _draw(axes, [row for row in rows if row.case.rule == rule])
        trained = f"{rule} of the clients" if "%" in rule else f"{rule} clients"
        axes.set_title(f"{trained} trained per round", loc="left", fontsize=11)
    panels[0].set_ylabel("RL time per round (ms)")
    panels[0].legend(frameon=False, loc="upper left", fontsize=9, handlelength=4)
    return figure


def _draw(axes: Axes, rows: Sequence[Measurement]) -> None:
    rows = sorted(rows, key=lambda row: row.case.num_clients)
    axes.set(xscale="log", yscale="log")
    for line in LINES:
        shown = [row for row in rows if row.case.implementation == line.implementation]
        values = [line.value(row) or float("nan") for row in shown]
        look: dict[str, Any] = {"color": line.style.color, "dashes": line.style.dashes, "marker": line.style.marker}
        axes.plot([row.case.num_clients for row in shown], values, linewidth=1.8, label=line.label, **look)
    clients = list(dict.fromkeys(row.case.num_clients for row in rows))
    axes.set(xscale="log", xlabel="clients")
    axes.set_xticks(clients, [f"{n:,}" for n in clients])
    axes.xaxis.set_minor_locator(NullLocator())
    axes.yaxis.set_major_locator(LogLocator(numticks=12))
    axes.yaxis.set_major_formatter(StrMethodFormatter("{x:,g}"))
    axes.yaxis.set_minor_formatter(NullFormatter())
    plain_axes(axes)
