"""Class distribution of the clients: training samples per class and client, from run.json."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from experiments.report.figure_text import as_drawn, can_be_drawn
from experiments.report.plots import NOISY
from experiments.results.federation_record import FederationRecord

_MOST_NUMBERED = 24
_MOST_NAMED = 60


def label_counts(record: FederationRecord) -> np.ndarray:
    """Returns ``int64[num_classes, num_clients]`` training samples."""
    counts = np.zeros((len(record.classes), len(record.clients)), dtype=np.int64)
    for place, client in enumerate(record.clients):
        for label, samples in client.labels.items():
            counts[int(label), place] = samples
    return counts


def class_names(record: FederationRecord) -> list[str]:
    """Returns how each class is named in the figure: a number in place of a name that the font lacks."""
    return [as_drawn(name) if can_be_drawn(name) else f"class {label}" for label, name in enumerate(record.classes)]


def classes_figure(record: FederationRecord, title: str) -> Figure:
    """Returns a cell per class and client, darker for more samples, with CPU frequencies below and totals above.

    Clients with wrong labels are outlined.
    """
    counts = label_counts(record)
    num_classes, num_clients = counts.shape
    width = float(np.clip(1.8 + 0.42 * num_clients, 6.0, 13.0))
    figure = Figure(figsize=(width, 1.9 + 0.27 * num_classes), dpi=150, layout="constrained")
    axes = figure.add_subplot()
    shown, top = np.ma.masked_equal(counts, 0), max(1, int(counts.max()))
    lines: dict[str, Any] = {"edgecolors": "#cccccc", "linewidth": 0.5} if num_clients <= _MOST_NAMED else {}
    image = axes.pcolormesh(shown, cmap="Blues", vmin=-0.2 * top, vmax=1.2 * top, **lines)
    axes.invert_yaxis()
    figure.colorbar(image, ax=axes, pad=0.01, label="training samples").ax.set_ylim(0, top)
    axes.set_yticks(np.arange(num_classes) + 0.5, class_names(record), fontsize=8)
    _client_axis(axes, record)
    if num_clients <= _MOST_NUMBERED:
        _write_numbers(axes, counts)
    for client in record.noisy_clients:
        axes.axvspan(client, client + 1, fill=False, edgecolor=NOISY, linewidth=1.4)
    outlined = "; outlined: clients with wrong labels" if record.noisy_clients else ""
    axes.set_title(f"{as_drawn(title)}{outlined}", loc="left", fontsize=10, pad=10)
    return figure


def _client_axis(axes: Axes, record: FederationRecord) -> None:
    num_clients = len(record.clients)
    if num_clients > _MOST_NAMED:
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
        axes.set_xlabel("client")
        return
    names = [f"{client.client} · {client.cpu_freq_hz / 1e6:,.0f}" for client in record.clients]
    axes.set_xticks(np.arange(num_clients) + 0.5, names, fontsize=7.5, rotation=90)
    axes.set_xlabel("client · CPU frequency (MHz) at the start")
    above = axes.secondary_xaxis("top")
    above.set_xticks(np.arange(num_clients) + 0.5, [f"{client.num_samples:,}" for client in record.clients], fontsize=7)
    above.tick_params(length=0, rotation=90 if num_clients > _MOST_NUMBERED else 0)


def _write_numbers(axes: Axes, counts: np.ndarray) -> None:
    """Black on light cells, white on dark ones."""
    for (label, client), samples in np.ndenumerate(counts):
        if samples:
            color = "white" if samples > 0.62 * counts.max() else "black"
            axes.text(client + 0.5, label + 0.5, f"{samples:,}", ha="center", va="center", fontsize=6.5, color=color)
