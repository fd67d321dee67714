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

_MOST_KINDS = 6


def selection_records(rows: pd.DataFrame, record: FederationRecord | None) -> list[Record]:
    """Returns one record per method: means over seeds, and % of all participations by kind of client.

    Kinds (how many labels a client holds, the slowest CPU) need ``record``.
    """
    return [
        {
            "method": group.label,
            "clients per round": f"{group.rows['num_trained'].mean():.2f}",
            "different clients": f"{np.mean([_ever_trained(trial) for trial in trials(group.rows)]):.1f}",
            **(_shares(group.rows, record.clients) if record else {}),
        }
        for group in groups(rows)
    ]


def participations(rows: pd.DataFrame, num_clients: int) -> NDArray[np.int64]:
    """Returns ``int64[num_clients]`` rounds that each client trained in."""
    return np.bincount(np.concatenate(rows["trained"].tolist()).astype(np.int64), minlength=num_clients)


def _ever_trained(trial: pd.DataFrame) -> int:
    return len(set().union(*trial["trained"]))


def _shares(rows: pd.DataFrame, clients: Sequence[ClientRecord]) -> Record:
    counts = participations(rows, len(clients))
    labels = np.array([len(client.labels) for client in clients])
    freqs = np.array([client.cpu_freq_hz for client in clients])
    kinds = {counted(int(number), "label"): labels == number for number in np.unique(labels)[::-1]}
    if len(kinds) > _MOST_KINDS:
        kinds = {}
    if freqs.min() < freqs.max():
        kinds[f"{freqs.min() / 1e6:,.0f} MHz"] = freqs == freqs.min()
    total = max(1, counts.sum())
    return {
        f"{name} ({counted(int(members.sum()), 'client')})": f"{100 * counts[members].sum() / total:.0f} %"
        for name, members in kinds.items()
    }
