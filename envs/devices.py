"""Device types and what a round costs on them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from envs.config import FederationConfig
from envs.rules.energy import epoch_energy_j, round_energy_j
from envs.rules.reward import LEAVE_ONE_OUT


@dataclass(frozen=True)
class CostModel:
    """Joules of one round by client id, for a fixed model, data set and partition.

    Attributes:
        config: The federation.
        num_parameters: Parameters of the model.
        values_per_sample: Numbers per sample.
        num_samples: ``[num_clients]`` training samples.
    """

    config: FederationConfig
    num_parameters: int
    values_per_sample: int
    num_samples: np.ndarray

    def costs_j(self, cpu_freq_hz: Sequence[float] | np.ndarray, epochs: int | None = None) -> np.ndarray:
        """``float64[num_clients]`` at the given frequencies; ``epochs`` other than ``local_epochs`` for round 0."""
        epochs = self.config.local_epochs if epochs is None else epochs
        return np.array(
            [
                round_energy_j(self.num_parameters, int(samples), self.values_per_sample, float(freq_hz), epochs)
                for samples, freq_hz in zip(self.num_samples, cpu_freq_hz, strict=True)
            ]
        )

    def probing_j(self, cpu_freq_hz: Sequence[float] | np.ndarray, clients: Sequence[int]) -> float:
        """Joules of ``probing_epochs`` on each of ``clients`` at the given frequencies, summed in order."""
        if self.config.probing_epochs == 0.0:
            return 0.0
        epochs_j = (
            epoch_energy_j(int(self.num_samples[client]), self.values_per_sample, float(cpu_freq_hz[client]))
            for client in clients
        )
        return self.config.probing_epochs * sum(epochs_j)

    def credit_j(self, cpu_freq_hz: Sequence[float] | np.ndarray, clients: Sequence[int]) -> float:
        """Joules of evaluating one model on ``clients`` for a leave-one-out reward, charged as probing is."""
        return self.probing_j(cpu_freq_hz, clients) if self.config.reward == LEAVE_ONE_OUT else 0.0

    def highest_credit_j(self, cpu_freq_hz: Sequence[float] | np.ndarray, clients: Sequence[int]) -> float:
        """The most that ``credit_j`` can be, whichever of ``clients`` are drawn."""
        highest_first = sorted((self.credit_j(cpu_freq_hz, [client]) for client in clients), reverse=True)
        return sum(highest_first[: self.config.credit_clients])

    def highest_costs_j(self) -> np.ndarray:
        """``float64[num_clients]`` at the highest frequency the configuration names for each client, with credit."""
        freqs = np.array(self.config.start_freq_hz, dtype=np.float64)
        for change in self.config.device_changes:
            freqs[change.client] = max(freqs[change.client], change.cpu_freq_hz)
        return self.costs_j(freqs) + self.highest_credit_j(freqs, range(len(freqs)))

    def changed(self, cpu_freq_hz: np.ndarray, round_index: int) -> np.ndarray:
        """``float64[num_clients]`` frequencies in ``round_index``, given those of the round before."""
        freqs = cpu_freq_hz.copy()
        for change in self.config.device_changes:
            if change.round == round_index:
                freqs[change.client] = change.cpu_freq_hz
        return freqs
