"""A client whose CPU gets faster or slower during a run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from envs.checks import SettingError, positive, whole


@dataclass(frozen=True)
class DeviceChange:
    """From ``round`` on (from 1), ``client`` runs at ``cpu_freq_hz``; it is seen in what the round before returns."""

    round: int
    client: int
    cpu_freq_hz: float


def check_changes(changes: Sequence[DeviceChange], num_clients: int, rounds: int) -> None:
    """Refuses changes that cannot happen.

    Raises:
        ValueError: With the change.
    """
    for change in changes:
        if not isinstance(change, DeviceChange):
            raise SettingError("device_changes", changes, "it must hold DeviceChange(round, client, cpu_freq_hz)")
        whole(f"round of {change}", change.round, least=1)
        whole(f"client of {change}", change.client, least=0)
        if change.round > rounds or change.client >= num_clients:
            raise ValueError(
                f"{change} is outside the run; rounds go from 1 to {rounds}, clients from 0 to {num_clients - 1}"
            )
        positive("cpu_freq_hz of a DeviceChange", change.cpu_freq_hz)
