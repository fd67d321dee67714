"""Tables, targets and the figure of `experiments.overhead`, from its rows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, LogLocator, NullFormatter, NullLocator, StrMethodFormatter

from experiments.overhead.rows import BIPPO, CENTRAL, STOCK, Measurement
from experiments.overhead.targets import targets
from experiments.report.plots import Style, save_figure
from experiments.report.tables import Record, markdown_table

NAMES = {BIPPO: "BIPPO", CENTRAL: "central network", STOCK: "stock RLlib"}
TIME_COLUMNS = ("clients", "trained", "who", "RL ms", "forward", "sampler", "bookkeeping", "learner", "kernel ms")
SIZE_COLUMNS = ("clients", "trained", "who", "MiB", "build s", "ckpt s", "ckpt MiB", "ckpt files")


def record(row: Measurement) -> Record:
    """All cells of a row; milliseconds are per round."""
    kernel = row.kernel_ms
    return {
        "clients": f"{row.case.num_clients:,}",
        "trained": f"{row.case.num_participants:,} ({row.case.rule})" if "%" in row.case.rule else row.case.rule,
        "who": NAMES[row.case.implementation],
        "RL ms": _figures(row.rl_ms),
        "forward": _figures(row.forward_ms),
        "sampler": _figures(row.sampler_ms) if row.case.implementation != STOCK else "–",
        "bookkeeping": _figures(row.bookkeeping_ms),
        "learner": _figures(row.learner_ms),
        "kernel ms": "–" if kernel is None else _figures(kernel),
        "MiB": f"{row.resident_mib_last:,.0f}",
        "build s": _figures(row.build_s),
        "ckpt s": _figures(row.checkpoint_s),
        "ckpt MiB": _figures(row.checkpoint_mib),
        "ckpt files": f"{row.checkpoint_files:,}",
    }


def _figures(value: float) -> str:
    """Three significant figures, or whole from 100 on."""
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def stream_line(cells: Record | None = None) -> str:
    """A line of the terminal's table, printed as soon as a row is there; the headers without `cells`."""
    names = dict.fromkeys((*TIME_COLUMNS, *SIZE_COLUMNS))
    return "  ".join(
        (name if cells is None else cells[name]).rjust(max(len(name), 6 + 6 * (name in ("trained", "who"))))
        for name in names
    )


def time_table(rows: Sequence[Measurement]) -> str:
    """Milliseconds per round and their parts, as Markdown."""
    return _select(rows, TIME_COLUMNS)


def size_table(rows: Sequence[Measurement]) -> str:
    """Memory, build and checkpoints, as Markdown."""
    return _select(rows, SIZE_COLUMNS)


def macs_table(rows: Sequence[Measurement]) -> str:
    """MACs of one client's networks and of the central ones, as Markdown."""
    macs = {row.case.num_clients: (row.macs_per_client, row.macs_central) for row in rows}
    return markdown_table(
        [
            {"clients": f"{n:,}", "per client": f"{own:,}", "central": f"{central:,}", "ratio": f"{central / own:,.0f}"}
            for n, (own, central) in sorted(macs.items())
        ]
    )


def targets_table(rows: Sequence[Measurement]) -> str:
    """Each target that these rows can judge, as Markdown; empty if there is none."""
    found = targets(rows)
    return markdown_table([target.record() for target in found]) if found else ""


def _select(rows: Sequence[Measurement], columns: Sequence[str]) -> str:
    return markdown_table([{name: record(row)[name] for name in columns} for row in rows])


class Line(NamedTuple):
    """A curve of the figure."""

    label: str
    style: Style
    value: Callable[[Measurement], float | None]
    implementation: str


LINES = (
    Line("stock RLlib", Style("#D55E00", (5, 2), "s"), lambda row: row.rl_ms, STOCK),
    Line("central network", Style("#009E73", (6, 1.5, 1.5, 1.5), "D"), lambda row: row.rl_ms, CENTRAL),
    Line("BIPPO", Style("#0072B2", (), "o"), lambda row: row.rl_ms, BIPPO),
    Line("bare kernel", Style("#000000", (1.5, 1.5), "^"), lambda row: row.kernel_ms, BIPPO),
)


def overhead_figure(rows: Sequence[Measurement]) -> Figure:
    """RL time per round over clients, log-log, a panel per rule of participation."""
    rules = list(dict.fromkeys(row.case.rule for row in rows))
    figure = Figure(figsize=(0.6 + 4.1 * len(rules), 4.0), dpi=150, layout="constrained")
    panels = figure.subplots(1, len(rules), sharey=True, squeeze=False)[0]
    for axes, rule in zip(panels, rules, strict=True):
        _draw(axes, [row for row in rows if row.case.rule == rule])
        trained = f"{rule} of the clients" if "%" in rule else f"{rule} clients"
        axes.set_title(f"{trained} trained per round", loc="left", fontsize=11)
    panels[0].set_ylabel("RL time per round (ms)")
    panels[0].legend(frameon=False, loc="upper left", fontsize=9, handlelength=3.2)
    return figure


def _draw(axes: Axes, rows: Sequence[Measurement]) -> None:
    axes.set(xscale="log", yscale="log", xlabel="clients")
    for line in LINES:
        shown = sorted(
            (r for r in rows if r.case.implementation == line.implementation), key=lambda r: r.case.num_clients
        )
        axes.plot(
            [row.case.num_clients for row in shown],
            [line.value(row) or float("nan") for row in shown],
            color=line.style.color,
            dashes=line.style.dashes,
            marker=line.style.marker,
            linewidth=1.8,
            markersize=6,
            markeredgecolor="white",
            markeredgewidth=0.7,
            label=line.label,
        )
    clients = sorted({row.case.num_clients for row in rows})
    axes.xaxis.set_major_locator(FixedLocator(clients))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.set_xticklabels([f"{n:,}" for n in clients])
    axes.yaxis.set_major_locator(LogLocator(numticks=12))
    axes.yaxis.set_major_formatter(StrMethodFormatter("{x:,g}"))
    axes.yaxis.set_minor_formatter(NullFormatter())
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(axis="y", color="#dddddd", linewidth=0.7)
    axes.set_axisbelow(True)


def write_report(rows: Sequence[Measurement], command: str, folder: Path) -> list[Path]:
    """Write overhead.md and the figure (PNG and SVG); returns their paths."""
    parts = [f"`{command}`", time_table(rows), size_table(rows), macs_table(rows), targets_table(rows)]
    page = folder / "overhead.md"
    page.write_text("\n\n".join(part for part in parts if part) + "\n")
    return [page, *save_figure(overhead_figure(rows), folder, "overhead")]
