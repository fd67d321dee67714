"""Who was selected, in numbers: how many clients, and of which kind."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from experiments.report.plots import groups, trials
from experiments.report.tables import Record
from experiments.results.federation_record import ClientRecord, FederationRecord
from experiments.results.naming import counted


def selection_records(rows: pd.DataFrame, record: FederationRecord | None) -> list[Record]:
    """One record per method: means over seeds; shares are of all participations.

    Kinds (how many labels a client holds, the slowest CPU) need `record`.
    """
    return [
        {
            "method": group.name,
            "clients per round": f"{group.rows['num_trained'].mean():.2f}",
            "different clients": f"{np.mean([_ever_selected(trial) for trial in trials(group.rows)]):.1f}",
            **(_shares(group.rows, record.clients) if record else {}),
        }
        for group in groups(rows)
    ]


def participations(rows: pd.DataFrame, num_clients: int) -> NDArray[np.int64]:
    """`int64[num_clients]` rounds that each client trained in."""
    chosen = [client for selected in rows["trained"] for client in selected]
    return np.bincount(np.asarray(chosen, dtype=np.int64), minlength=num_clients)


def _ever_selected(trial: pd.DataFrame) -> int:
    return len(set().union(*map(set, trial["trained"])))


def _shares(rows: pd.DataFrame, clients: Sequence[ClientRecord]) -> Record:
    counts = participations(rows, len(clients))
    labels = np.array([len(client.labels) for client in clients])
    freqs = np.array([client.cpu_freq_hz for client in clients])
    kinds = {counted(int(number), "label"): labels == number for number in sorted(set(labels.tolist()), reverse=True)}
    if len(kinds) > 6:
        kinds = {}
    if freqs.min() < freqs.max():
        kinds[f"{freqs.min() / 1e6:,.0f} MHz"] = freqs == freqs.min()
    total = max(1, counts.sum())
    return {
        f"{name} ({counted(int(members.sum()), 'client')})": f"{100 * counts[members].sum() / total:.0f} %"
        for name, members in kinds.items()
    }
