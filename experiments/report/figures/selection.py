"""Who was selected when: a heat map of clients x rounds per method, the share of seeds that selected the client."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.image import AxesImage
from matplotlib.ticker import MaxNLocator
from numpy.typing import NDArray

from experiments.report.plots import GREY, Group, fitted, groups, mark_churn, round_axis
from experiments.results.federation_record import ClientRecord, FederationRecord

#: Kinds of neighbouring clients that share a name on the axis: (labels, first, last) of each.
_Named = Sequence[tuple[int, int, int]]

_ONE_COLUMN = 3
#: More are a mixture; nothing would be gained by naming them.
_MOST_KINDS = 8
_LEAST_HEIGHT_IN, _MOST_HEIGHT_IN = 1.3, 4.0
#: Two lines of a kind's name and some air.
_NAME_HEIGHT_IN = 0.31


def selection_share(rows: pd.DataFrame, num_clients: int) -> NDArray[np.float64]:
    """`[num_clients, rounds]`: of the trials in which the client was live in the round, the share that selected it.

    NaN where it was live in none. Columns are rounds 1 to the last one of any trial.
    """
    shape = (num_clients, int(rows["round"].max()))
    live, chosen = np.zeros(shape), np.zeros(shape)
    for round_number, clients, selected in zip(rows["round"], rows["clients"], rows["trained"], strict=True):
        live[np.asarray(clients, dtype=int), round_number - 1] += 1
        chosen[np.asarray(selected, dtype=int), round_number - 1] += 1
    return np.divide(chosen, live, out=np.full(shape, np.nan), where=live > 0)


def selection_figure(rows: pd.DataFrame, record: FederationRecord | None, title: str) -> Figure:
    """A panel per method; dots mark the slowest CPUs.

    Hatched where a client was live in none of the seeds, or none of them ran the round.
    """
    drawn, num_clients = groups(rows), clients_in(rows, record)
    last_round = int(rows["round"].max())
    columns = 1 if len(drawn) <= _ONE_COLUMN else 2
    lines = -(-len(drawn) // columns)
    named = _kinds(record) if record else []
    height = float(np.clip(0.075 * num_clients, max(_LEAST_HEIGHT_IN, _names_height_in(named)), _MOST_HEIGHT_IN))
    width = 7.4 if columns == 1 else 10.7
    figure = Figure(figsize=(width, 1.3 + lines * (height + 0.45)), dpi=150, layout="constrained")
    panels = figure.subplots(lines, columns, squeeze=False, sharex=True, sharey=True).ravel()
    for place, (axes, group) in enumerate(itertools.zip_longest(panels, drawn)):
        if group is None:
            axes.remove()
            continue
        image = _draw(axes, group, num_clients, last_round)
        mark_churn(axes, group.rows, above=True)
        _decorate(axes, record, named, place >= len(drawn) - columns)
    for axes in panels[: len(drawn) : columns]:
        axes.set_ylabel("" if named else "client", fontsize=9)
    bar = figure.colorbar(image, ax=list(panels[: len(drawn)]), pad=0.015, fraction=0.03, aspect=40)
    bar.set_label("share of the seeds\nthat selected the client (%)")
    bar.set_ticks([0, 0.25, 0.5, 0.75, 1], labels=["0", "25", "50", "75", "100"])
    figure.suptitle(f"{fitted(title, width)}\n{_legend(record)}", x=0.01, ha="left", fontsize=10)
    return figure


def clients_in(rows: pd.DataFrame, record: FederationRecord | None) -> int:
    """Clients there are, live or not."""
    if record is not None:
        return len(record.clients)
    return 1 + max(max(clients, default=0) for clients in rows["clients"])


def _draw(axes: Axes, group: Group, num_clients: int, last_round: int) -> AxesImage:
    share = np.full((num_clients, last_round), np.nan)
    found = selection_share(group.rows, num_clients)
    share[:, : found.shape[1]] = found
    axes.patch.set(facecolor="#f2f2f2", edgecolor="#b5b5b5", hatch="////", linewidth=0)
    axes.set_title(f"{group.name} ({group.seeds})", loc="left", fontsize=9)
    extent = (0.5, last_round + 0.5, num_clients - 0.5, -0.5)
    return axes.imshow(share, cmap="Blues", vmin=0, vmax=1, aspect="auto", extent=extent, interpolation="nearest")


def _decorate(axes: Axes, record: FederationRecord | None, named: Sequence[_Named], is_last: bool) -> None:
    round_axis(axes, "FL round" if is_last else "")
    axes.tick_params(labelbottom=is_last, labelsize=8)
    # Panels share their ticks: what is set on one holds for all.
    axes.yaxis.set_major_locator(MaxNLocator(integer=True, nbins=6, min_n_ticks=1))
    if record is None:
        return
    _mark_kinds(axes, named)
    slowest = slowest_clients(record.clients)
    if not slowest:  # a plot of nothing has no place, and the layout would find no room for it
        return
    axes.plot(
        [1.012] * len(slowest),
        slowest,
        ".",
        color="black",
        markersize=3,
        transform=axes.get_yaxis_transform(),
        clip_on=False,
    )


def label_runs(clients: Sequence[ClientRecord]) -> list[tuple[int, int, int]]:
    """Runs of neighbouring clients that hold equally many labels: (labels, first, last)."""
    runs = []
    for labels, run in itertools.groupby(range(len(clients)), key=lambda client: len(clients[client].labels)):
        members = list(run)
        runs.append((labels, members[0], members[-1]))
    return runs


def slowest_clients(clients: Sequence[ClientRecord]) -> list[int]:
    """Clients at the lowest CPU frequency; none where all have the same."""
    freqs = [client.cpu_freq_hz for client in clients]
    return [place for place, freq in enumerate(freqs) if freq == min(freqs) < max(freqs)]


def _kinds(record: FederationRecord) -> list[_Named]:
    """``label_runs``, those with one name together; none where kinds are mixed up.

    Two clients of a kind of their own among many others, as they join in churn, have no room for a name each.
    """
    runs = label_runs(record.clients)
    if len(runs) > _MOST_KINDS:
        return []
    named: list[_Named] = [[run] for run in runs]
    while _names_height_in(named) > _MOST_HEIGHT_IN:
        closest = int(np.argmin(np.diff([_middle(runs) for runs in named])))
        named[closest : closest + 2] = [[*named[closest], *named[closest + 1]]]
    return named


def _names_height_in(named: Sequence[_Named]) -> float:
    """Least height of a panel in which neighbouring names do not overlap."""
    if len(named) < 2:
        return 0.0
    return float(_NAME_HEIGHT_IN * (named[-1][-1][2] + 1) / np.diff([_middle(runs) for runs in named]).min())


def _middle(runs: _Named) -> float:
    return (runs[0][1] + runs[-1][2]) / 2


def _mark_kinds(axes: Axes, named: Sequence[_Named]) -> None:
    """Lines between clients of one label, two, three and all, and their names on the axis."""
    if not named:
        return
    for _, first, _ in [run for runs in named for run in runs][1:]:
        axes.axhline(first - 0.5, color=GREY, linewidth=0.6)
    axes.set_yticks([_middle(runs) for runs in named], [_name(runs) for runs in named], fontsize=8)


def _name(runs: _Named) -> str:
    first, last = runs[0][1], runs[-1][2]
    who = f"clients {first}–{last}" if last > first else f"client {first}"
    return f"{who}\n{', '.join(str(labels) for labels, _, _ in runs)} label{'s' * (runs[-1][0] > 1 or len(runs) > 1)}"


def _legend(record: FederationRecord | None) -> str:
    dots = "; dots: lowest CPU frequency" if record and slowest_clients(record.clients) else ""
    return f"hatched: client live in none of the seeds, or round run by none{dots}"
