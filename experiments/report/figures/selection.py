"""Who was selected when: a heat map of clients x rounds per method, the share of seeds that selected the client."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.image import AxesImage
from matplotlib.ticker import MaxNLocator
from numpy.typing import NDArray

from experiments.report import plots
from experiments.report.groups import Group, groups
from experiments.report.plots import GREY
from experiments.results.federation_record import ClientRecord, FederationRecord

#: More are a mixture; nothing would be gained by naming them.
_MOST_KINDS = 8
#: Far more than a figure has points, and what takes some hundred megabytes.
_MOST_CELLS = 20_000_000
_LEAST_HEIGHT_IN, _MOST_HEIGHT_IN = 1.3, 4.0
#: Two lines of a kind's name and some air.
_NAME_HEIGHT_IN = 0.31


class Kind(NamedTuple):
    """Neighbouring clients, ``first`` to ``last``, and how many labels they hold: one number, or several in turn."""

    labels: tuple[int, ...]
    first: int
    last: int

    @property
    def middle(self) -> float:
        """Where its name stands on the axis."""
        return (self.first + self.last) / 2

    @property
    def name(self) -> str:
        """``clients 0–4`` and, below, ``3 labels``."""
        who = f"clients {self.first}–{self.last}" if self.last > self.first else f"client {self.first}"
        return f"{who}\n{', '.join(map(str, self.labels))} label{'s' * (self.labels != (1,))}"


def label_runs(clients: Sequence[ClientRecord]) -> list[Kind]:
    """Returns the runs of neighbouring clients that hold equally many labels."""
    runs = itertools.groupby(range(len(clients)), key=lambda client: len(clients[client].labels))
    members = [(labels, list(run)) for labels, run in runs]
    return [Kind((labels,), run[0], run[-1]) for labels, run in members]


def slowest_clients(clients: Sequence[ClientRecord]) -> list[int]:
    """Returns the clients at the lowest CPU frequency; none where all have the same."""
    freqs = [client.cpu_freq_hz for client in clients]
    return [place for place, freq in enumerate(freqs) if freq == min(freqs) < max(freqs)]


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
    """Returns a panel per method; dots mark the slowest CPUs, crosses the clients with wrong labels.

    Hatched where a client was live in none of the seeds, or none of them ran the round. None where clients times rounds
    are too many to draw.
    """
    drawn, num_clients, num_rounds = groups(rows), _num_clients(rows, record), int(rows["round"].max())
    if num_clients * num_rounds > _MOST_CELLS:
        return None
    runs = label_runs(record.clients) if record else []
    named = _with_room(runs) if len(runs) <= _MOST_KINDS else []
    height = float(np.clip(0.075 * num_clients, max(_LEAST_HEIGHT_IN, _names_height_in(named)), _MOST_HEIGHT_IN))
    figure, panels = plots.panels(
        len(drawn), "" if named else "client", width_in=(7.4, 10.7), height_in=height + 0.45, margin_in=1.3
    )
    for axes, group in zip(panels, drawn, strict=True):
        image = _draw(axes, group, selection_share(group.rows, num_clients, num_rounds))
        plots.mark_churn(axes, group.rows, above=True)
        _client_axis(axes, runs, named)
        if record is not None:
            _mark(axes, slowest_clients(record.clients), ".k", 1.012)
            _mark(axes, record.noisy_clients, "x", 1.026, color=plots.NOISY)
    bar = figure.colorbar(image, ax=panels, pad=0.015, fraction=0.03, aspect=40)
    bar.set_label("seeds that selected\nthe client (%)")
    bar.set_ticks([0, 0.25, 0.5, 0.75, 1], labels=["0", "25", "50", "75", "100"])
    heading = f"{plots.fitted(title, figure.get_figwidth())}\n{_legend(record)}"
    figure.suptitle(heading, x=0.01, ha="left", fontsize=10)
    return figure


def _num_clients(rows: pd.DataFrame, record: FederationRecord | None) -> int:
    """Clients there are, live or not."""
    if record is not None:
        return len(record.clients)
    return 1 + max(max(clients, default=0) for clients in rows["clients"])


def _draw(axes: Axes, group: Group, share: NDArray[np.float64]) -> AxesImage:
    num_clients, num_rounds = share.shape
    axes.patch.set(facecolor="#f2f2f2", edgecolor=plots.LIGHT_GREY, hatch="////", linewidth=0)
    axes.set_title(f"{group.name} ({group.seeds})", loc="left", fontsize=9)
    extent = (0.5, num_rounds + 0.5, num_clients - 0.5, -0.5)
    return axes.imshow(share, cmap="Blues", vmin=0, vmax=1, aspect="auto", extent=extent, interpolation="nearest")


def _client_axis(axes: Axes, runs: Sequence[Kind], named: Sequence[Kind]) -> None:
    """Lines between clients of one label, two, three and all, and their names on the axis."""
    axes.tick_params(labelsize=8)
    if not named:
        # Panels share their ticks: what is set on one holds for all.
        axes.yaxis.set_major_locator(MaxNLocator(integer=True, nbins=6, min_n_ticks=1))
        return
    for run in runs[1:]:
        axes.axhline(run.first - 0.5, color=GREY, linewidth=0.6)
    axes.set_yticks([kind.middle for kind in named], [kind.name for kind in named], fontsize=8)


def _with_room(runs: Sequence[Kind]) -> list[Kind]:
    """The runs, with one name for the closest together until all names have room.

    Two clients of a kind of their own among many others, as they join in churn, have no room for a name each.
    """
    named = list(runs)
    while _names_height_in(named) > _MOST_HEIGHT_IN:
        closest = int(np.argmin(np.diff([kind.middle for kind in named])))
        above, below = named[closest : closest + 2]
        named[closest : closest + 2] = [Kind(above.labels + below.labels, above.first, below.last)]
    return named


def _names_height_in(named: Sequence[Kind]) -> float:
    """Least height of a panel in which neighbouring names do not overlap."""
    if len(named) < 2:
        return 0.0
    return float(_NAME_HEIGHT_IN * (named[-1].last + 1) / np.diff([kind.middle for kind in named]).min())


def _mark(axes: Axes, clients: Sequence[int], form: str, place: float, **style: Any) -> None:
    """Marks clients on the right of the panel, at ``place`` times its width."""
    if clients:  # a plot of nothing has no place, and the layout would find no room for it
        beside = axes.get_yaxis_transform()
        axes.plot([place] * len(clients), clients, form, markersize=3, transform=beside, clip_on=False, **style)


def _legend(record: FederationRecord | None) -> str:
    parts = ["hatched: client live in none of the seeds, or round run by none"]
    if record and slowest_clients(record.clients):
        parts.append("dots: lowest CPU frequency")
    if record and record.noisy_clients:
        parts.append("crosses: wrong labels")
    return "; ".join(parts)
