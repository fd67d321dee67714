"""A client whose CPU gets faster or slower during a run."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class DeviceChange:
    """From ``round`` on (from 1), ``client`` runs at ``cpu_freq_hz``; it is seen in what the round before returns."""

    round: int
    client: int
    cpu_freq_hz: float
