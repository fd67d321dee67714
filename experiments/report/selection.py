"""Who was selected: a table by kind of client, and a heat map of clients x rounds per method."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator
from numpy.typing import NDArray

from experiments.report import plots
from experiments.report.styles import GREY, groups
from experiments.report.tables import Record
from experiments.results.federation_record import ClientRecord, FederationRecord
from experiments.results.naming import pluralize

_MOST_KINDS = 6
#: Far more than a figure has points, and what takes some hundred megabytes.
_MOST_CELLS = 20_000_000


def selection_records(rows: pd.DataFrame, record: FederationRecord | None) -> list[Record]:
    """Returns one record per method: means over seeds, and % of all participations by kind of client.

    Kinds (how many labels a client holds, the slowest CPU) need ``record``; so does the energy that went to clients
    with wrong labels, where there are any.
    """
    return [
        {
            "method": group.label,
            "clients per round": f"{group.rows['num_trained'].mean():.2f}",
            "different clients": f"{_different_clients(group.rows):.1f}",
            **(_shares(group.rows, record.clients) if record else {}),
            **(_noisy_share(group.rows, record.noisy_clients) if record and record.noisy_clients else {}),
        }
        for group in groups(rows)
    ]


def _different_clients(rows: pd.DataFrame) -> float:
    """Mean over seeds of how many trained at least once."""
    return float(np.mean([trained.explode().nunique() for _, trained in rows.groupby("seed")["trained"]]))


def _shares(rows: pd.DataFrame, clients: Sequence[ClientRecord]) -> Record:
    chosen = rows["trained"].explode().dropna().astype(int)
    labels = pd.Series([len(client.labels) for client in clients])
    freqs = pd.Series([client.cpu_freq_hz for client in clients])
    numbers = sorted(labels.unique(), reverse=True)
    kinds = {pluralize(number, "label"): labels == number for number in numbers if len(numbers) <= _MOST_KINDS}
    if freqs.nunique() > 1:
        kinds[f"{freqs.min() / 1e6:,.0f} MHz"] = freqs == freqs.min()
    per_cent = 100 / max(1, len(chosen))
    return {
        f"{name} ({pluralize(members.sum(), 'client')})": f"{per_cent * chosen.map(members).sum():.0f} %"
        for name, members in kinds.items()
    }


def training_energy_j(rows: pd.DataFrame, clients: Sequence[int] | None = None) -> float:
    """Returns the joules that these clients, or all, spent on training, also where it failed."""
    counted = np.unique(np.concatenate(rows["clients"].to_list())) if clients is None else clients
    per_round = zip(*(rows[name] for name in ("clients", "costs_j", "trained", "failed")), strict=True)
    return sum(
        float(np.asarray(costs)[np.isin(live, np.intersect1d(counted, [*trained, *failed]))].sum())
        for live, costs, trained, failed in per_round
    )


def _noisy_share(rows: pd.DataFrame, noisy: Sequence[int]) -> Record:
    every = training_energy_j(rows)
    share = 100 * training_energy_j(rows, noisy) / every if every > 0 else 0.0
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


def selection_figure(rows: pd.DataFrame, record: FederationRecord | None, title: str) -> Figure | None:
    """Returns a panel per method; lines part clients with different numbers of labels, crosses mark wrong labels.

    Hatched where a client was live in none of the seeds, or none of them ran the round. None where clients times rounds
    are too many to draw.
    """
    drawn, num_rounds = groups(rows), int(rows["round"].max())
    num_clients = len(record.clients) if record else 1 + max(max(live, default=0) for live in rows["clients"])
    if num_clients * num_rounds > _MOST_CELLS:
        return None
    height = float(np.clip(0.075 * num_clients, 1.3, 4.0))
    figure, panels = plots.panels(len(drawn), "client", (7.4, 10.7), height_in=height + 0.45, margin_in=1.3)
    for axes, group in zip(panels, drawn, strict=True):
        axes.patch.set(facecolor="#f2f2f2", edgecolor="#bbbbbb", hatch="////", linewidth=0)
        share, extent = selection_share(group.rows, num_clients, num_rounds), (0.5, num_rounds + 0.5)
        look: dict[str, Any] = {"cmap": "Blues", "vmin": 0, "vmax": 1, "aspect": "auto", "interpolation": "nearest"}
        image = axes.imshow(share, extent=(*extent, num_clients - 0.5, -0.5), **look)
        axes.set_title(f"{group.name} ({group.seeds})", loc="left", fontsize=9)
        axes.tick_params(labelsize=8)
        axes.yaxis.set_major_locator(MaxNLocator(integer=True, nbins=6, min_n_ticks=1))
        plots.mark_churn(axes, group.rows, above=True)
        for first in _kinds_begin(record.clients) if record else ():
            axes.axhline(first - 0.5, color=GREY, linewidth=0.6)
        if record and record.noisy_clients:  # a plot of nothing would spoil the layout
            beside: dict[str, Any] = {"transform": axes.get_yaxis_transform(), "clip_on": False}
            axes.plot([1.015] * len(record.noisy_clients), record.noisy_clients, "x", ms=3, color="#D55E00", **beside)
    bar = figure.colorbar(image, ax=panels, pad=0.015, fraction=0.03, aspect=40)
    bar.set_label("seeds that selected\nthe client (%)")
    bar.set_ticks([0, 0.25, 0.5, 0.75, 1], labels=["0", "25", "50", "75", "100"])
    figure.suptitle(plots.fitted(title, figure.get_figwidth()), x=0.01, ha="left", fontsize=10)
    return figure


def _kinds_begin(clients: Sequence[ClientRecord]) -> list[int]:
    """The clients that hold more or fewer labels than the one before them; none if they are many."""
    pairs = enumerate(itertools.pairwise(len(client.labels) for client in clients))
    found = [before + 1 for before, (labels, following) in pairs if labels != following]
    return found if len(found) < 8 else []
