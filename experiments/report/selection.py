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
from experiments.results.federation_record import ClientRecord, FederationRecord
from experiments.results.naming import pluralize

_MOST_KINDS = 6
#: Far more than a figure has points, and what takes some hundred megabytes.
_MOST_CELLS = 20_000_000


def selection_records(summaries: Sequence[MethodSummary], record: FederationRecord | None) -> list[Record]:
    """Returns one record per method: means over seeds, and % of all participations by kind of client.

    Kinds (how many labels a client holds, the slowest CPU) need ``record``; so does the energy that went to clients
    with wrong labels, where there are any.
    """
    return [
        {
            "method": summary.label,
            "clients per round": f"{summary.rows['num_trained'].mean():.2f}",
            "different clients": f"{summary.rows.groupby('seed')['trained'].agg(_different).mean():.1f}",
            **(_shares(summary.rows, record.clients) if record else {}),
            **(_noisy_share(summary.rows, record.noisy_clients) if record and record.noisy_clients else {}),
        }
        for summary in summaries
    ]


def _different(trained: pd.Series) -> int:
    return trained.explode().nunique()


def _shares(rows: pd.DataFrame, clients: Sequence[ClientRecord]) -> Record:
    chosen = rows["trained"].explode().dropna().astype(int)
    labels = pd.Series([len(client.labels) for client in clients])
    mhz = pd.Series([client.cpu_freq_hz / 1e6 for client in clients])
    numbers = sorted(labels.unique(), reverse=True)
    kinds = {pluralize(number, "label"): labels == number for number in numbers if len(numbers) <= _MOST_KINDS}
    if mhz.nunique() > 1:
        kinds[f"{mhz.min():,.0f} MHz"] = mhz == mhz.min()
    per_cent = 100 / max(1, len(chosen))
    return {
        f"{name} ({pluralize(members.sum(), 'client')})": f"{per_cent * chosen.map(members).sum():.0f} %"
        for name, members in kinds.items()
    }


def training_energy_j(rows: pd.DataFrame) -> pd.Series:
    """Returns client -> joules that it spent on training, also where it failed."""
    costs = rows[["clients", "costs_j"]].explode(["clients", "costs_j"])
    active = (rows["trained"].map(list) + rows["failed"].map(list)).explode()
    was_active = pd.MultiIndex.from_arrays([costs.index, costs["clients"]]).isin(
        pd.MultiIndex.from_arrays([active.index, active])
    )
    return costs[was_active].groupby("clients")["costs_j"].sum().astype(float)


def _noisy_share(rows: pd.DataFrame, noisy: Sequence[int]) -> Record:
    spent = training_energy_j(rows)
    share = 100 * spent[spent.index.isin(noisy)].sum() / spent.sum() if spent.sum() > 0 else 0.0
    return {f"energy to {pluralize(len(noisy), 'noisy client')}": f"{share:.0f} %"}


def selection_share(rows: pd.DataFrame, num_clients: int, num_rounds: int) -> NDArray[np.float64]:
    """Returns ``[num_clients, num_rounds]``: of the trials in which the client was live, the share that selected it.

    NaN where it was live in none.
    """
    live, chosen = np.zeros((2, num_clients, num_rounds))
    for round_number, clients, trained in zip(rows["round"], rows["clients"], rows["trained"], strict=True):
        live[np.asarray(clients, dtype=int), round_number - 1] += 1
        chosen[np.asarray(trained, dtype=int), round_number - 1] += 1
    return np.divide(chosen, live, out=np.full_like(live, np.nan), where=live > 0)


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
