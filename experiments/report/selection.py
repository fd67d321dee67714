"""Which clients were selected: a table by kind of client, and a heat map of clients x rounds per method."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator
from numpy.typing import NDArray

from experiments.report import plots
from experiments.report.churn import Churn
from experiments.report.metrics import MethodSummary
from experiments.report.styles import GREY, drawn_name, drawn_seeds
from experiments.report.tables import Record
from experiments.results.collection import by_client
from experiments.results.federation_record import ClientRecord, FederationRecord
from experiments.results.naming import pluralize

_MOST_KINDS = 6
#: Far more than a figure has points, and what takes some hundred megabytes.
_MOST_CELLS = 20_000_000


def selection_records(summaries: Sequence[MethodSummary], record: FederationRecord | None) -> list[Record]:
    """Returns one record per method: means over seeds, and % of all selections by kind of client.

    Kinds (how many labels a client holds, the slowest CPU) need ``record``; so does the energy that went to clients
    with wrong labels, where there are any.
    """
    return [_selection_record(summary, record) for summary in summaries]


def _selection_record(summary: MethodSummary, record: FederationRecord | None) -> Record:
    clients = by_client(summary.rows, ["seed"])
    selected = clients[clients["selected"]]
    return {
        "method": summary.label,
        "clients per round": f"{len(selected) / len(summary.rows):.2f}",
        "different clients": f"{len(selected.drop_duplicates(['seed', 'client'])) / summary.num_seeds:.1f}",
        **(_shares(selected["client"], record.clients) if record else {}),
        **(_noisy_share(selected, record.noisy_clients) if record and record.noisy_clients else {}),
    }


def _shares(selected: pd.Series, clients: Sequence[ClientRecord]) -> Record:
    labels = pd.Series([len(client.labels) for client in clients])
    mhz = pd.Series([client.cpu_freq_hz / 1e6 for client in clients])
    numbers = sorted(labels.unique(), reverse=True)
    kinds = {pluralize(number, "label"): labels == number for number in numbers if len(numbers) <= _MOST_KINDS}
    if mhz.nunique() > 1:
        kinds[f"{mhz.min():,.0f} MHz"] = mhz == mhz.min()
    per_cent = 100 / max(1, len(selected))
    return {
        f"{name} ({pluralize(members.sum(), 'client')})": f"{per_cent * selected.map(members).sum():.0f} %"
        for name, members in kinds.items()
    }


def _noisy_share(selected: pd.DataFrame, noisy: Sequence[int]) -> Record:
    spent_j = selected["cost_j"]
    share = 100 * spent_j[selected["client"].isin(noisy)].sum() / spent_j.sum() if spent_j.sum() > 0 else 0.0
    return {f"energy to {pluralize(len(noisy), 'noisy client')}": f"{share:.0f} %"}


def selection_share(rows: pd.DataFrame, num_clients: int, num_rounds: int) -> NDArray[np.float64]:
    """Returns ``[num_clients, num_rounds]``: of the trials in which the client was live, the share that selected it.

    NaN where it was live in none.
    """
    shares = by_client(rows, ["round"]).groupby(["client", "round"])["selected"].mean().unstack()
    return shares.reindex(index=range(num_clients), columns=range(1, num_rounds + 1)).to_numpy()


def selection_figure(
    summaries: Sequence[MethodSummary], record: FederationRecord | None, title: str, churn: Churn | None = None
) -> Figure | None:
    """Returns a panel per method, in one column up to three, else in two; None where there are too many cells to draw.

    Hatched where a client was live in none of the seeds, or none of them ran the round. Crosses mark wrong labels,
    lines part clients with different numbers of labels.
    """
    num_rounds = max(int(summary.trials["rounds"].max()) for summary in summaries)
    live = (max(clients, default=0) for summary in summaries for clients in summary.rows["clients"])
    num_clients = len(record.clients) if record else 1 + max(live)
    if num_clients * num_rounds > _MOST_CELLS:
        return None
    columns = 1 if len(summaries) <= 3 else 2
    lines, height = -(-len(summaries) // columns), float(np.clip(0.075 * num_clients, 1.3, 4.0))
    size = (7.4 if columns == 1 else 10.7, 1.2 + lines * (height + 0.55))
    figure = Figure(figsize=size, dpi=150, layout="constrained")
    panels = figure.subplots(lines, columns, squeeze=False).ravel()
    for axes, summary in zip(panels, summaries, strict=False):
        image = _draw(axes, selection_share(summary.rows, num_clients, num_rounds), record)
        axes.set_title(f"{drawn_name(summary)} ({drawn_seeds(summary)})", loc="left", fontsize=9)
        plots.mark_churn(axes, churn, above=True)
    for surplus in panels[len(summaries) :]:
        surplus.remove()
    bar = figure.colorbar(image, ax=panels[: len(summaries)].tolist(), pad=0.015, fraction=0.03, aspect=40)
    bar.set_label("seeds that selected\nthe client (%)")
    bar.set_ticks([0, 0.25, 0.5, 0.75, 1], labels=["0", "25", "50", "75", "100"])
    figure.supxlabel("FL round", fontsize=10)
    figure.supylabel("client", fontsize=10)
    figure.suptitle(plots.fitted(title, size[0]), x=0.01, ha="left", fontsize=10)
    return figure


def _draw(axes: Axes, share: NDArray[np.float64], record: FederationRecord | None) -> Any:
    """Draws shares of clients x rounds; returns the image, for a colour bar."""
    num_clients, num_rounds = share.shape
    axes.patch.set(facecolor="#f2f2f2", edgecolor="#bbbbbb", hatch="////", linewidth=0)
    axes.tick_params(labelsize=8)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True, nbins=8))
    axes.yaxis.set_major_locator(MaxNLocator(integer=True, nbins=6, min_n_ticks=1))
    if record is not None:
        labels = pd.Series([len(client.labels) for client in record.clients])
        changes = np.flatnonzero(labels.diff().fillna(0))
        for first in changes if len(changes) < 8 else ():
            axes.axhline(first - 0.5, color=GREY, linewidth=0.6)
    if record is not None and record.noisy_clients:  # a plot of nothing would spoil the layout
        beside: dict[str, Any] = {"transform": axes.get_yaxis_transform(), "clip_on": False}
        axes.plot([1.015] * len(record.noisy_clients), record.noisy_clients, "x", ms=3, color="#D55E00", **beside)
    extent = (0.5, num_rounds + 0.5, num_clients - 0.5, -0.5)
    return axes.imshow(share, extent=extent, cmap="Blues", vmin=0, vmax=1, aspect="auto", interpolation="nearest")
