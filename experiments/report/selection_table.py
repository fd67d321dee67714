"""Who was selected, in numbers: how many clients, and of which kind."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd

from experiments.report.groups import groups
from experiments.report.tables import Record
from experiments.results.federation_record import ClientRecord, FederationRecord
from experiments.results.naming import pluralize

_MOST_KINDS = 6


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
    return float(np.mean([len(set().union(*trained)) for _, trained in rows.groupby("seed")["trained"]]))


def _shares(rows: pd.DataFrame, clients: Sequence[ClientRecord]) -> Record:
    counts = np.bincount(np.concatenate(rows["trained"].tolist()).astype(np.int64), minlength=len(clients))
    labels = np.array([len(client.labels) for client in clients])
    freqs = np.array([client.cpu_freq_hz for client in clients])
    kinds = {pluralize(int(number), "label"): labels == number for number in np.unique(labels)[::-1]}
    if len(kinds) > _MOST_KINDS:
        kinds = {}
    if freqs.min() < freqs.max():
        kinds[f"{freqs.min() / 1e6:,.0f} MHz"] = freqs == freqs.min()
    total = max(1, counts.sum())
    return {
        f"{name} ({pluralize(int(members.sum()), 'client')})": f"{100 * counts[members].sum() / total:.0f} %"
        for name, members in kinds.items()
    }


def training_energy_j(rows: pd.DataFrame, clients: Sequence[int]) -> float:
    """Returns the joules that these clients spent on training, also where it failed."""
    per_round = zip(*(rows[name] for name in ("clients", "costs_j", "trained", "failed")), strict=True)
    return sum(
        float(np.asarray(costs)[np.isin(live, np.intersect1d(clients, [*trained, *failed]))].sum())
        for live, costs, trained, failed in per_round
    )


def _noisy_share(rows: pd.DataFrame, noisy: Sequence[int]) -> Record:
    everybody = training_energy_j(rows, np.unique(np.concatenate(rows["clients"].to_list())).tolist())
    share = 100 * training_energy_j(rows, noisy) / everybody if everybody > 0 else 0.0
    return {f"energy to {pluralize(len(noisy), 'noisy client')}": f"{share:.0f} %"}
