"""Device types and what a round costs on them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from envs.config import FederationConfig
from envs.rules.budget import round_budget_j
from envs.rules.energy import epoch_energy_j, upload_energy_j
from envs.rules.reward import LEAVE_ONE_OUT, SHAPLEY


@dataclass(frozen=True)
class CostModel:
    """Joules of one round by client id, for a fixed model, data set and partition."""

    config: FederationConfig  #: The federation.
    num_parameters: int  #: Parameters of the model.
    values_per_sample: int  #: Numbers per sample.
    num_samples: np.ndarray  #: ``[num_clients]`` training samples.

    def epoch_j(
        self, cpu_freq_hz: Sequence[float] | np.ndarray, metered_epoch_j: np.ndarray | None = None
    ) -> np.ndarray:
        """Returns the ``float64[num_clients]`` joules of one local epoch.

        Args:
            cpu_freq_hz: ``[num_clients]`` frequencies, for the formula.
            metered_epoch_j: ``[num_clients]`` what a meter read, NaN for a client that it has not read: that one takes
                the formula's joules times the ratio of readings to formula over the clients that were read. None
                for the formula.
        """
        formula_j = np.array(
            [
                epoch_energy_j(int(samples), self.values_per_sample, float(freq_hz))
                for samples, freq_hz in zip(self.num_samples, cpu_freq_hz, strict=True)
            ]
        )
        if metered_epoch_j is None:
            return formula_j
        is_read = ~np.isnan(metered_epoch_j)
        scale = np.sum(metered_epoch_j[is_read]) / np.sum(formula_j[is_read])
        return np.where(is_read, metered_epoch_j, scale * formula_j)

    def costs_j(self, epoch_j: np.ndarray, epochs: int | None = None) -> np.ndarray:
        """Returns the ``float64[num_clients]`` joules of a round from an epoch's; round 0 has other ``epochs``."""
        epochs = self.config.local_epochs if epochs is None else epochs
        return self.upload_j + epochs * epoch_j

    @property
    def upload_j(self) -> float:
        """Returns the joules of sending the model once."""
        return upload_energy_j(self.num_parameters)

    def probing_j(self, epoch_j: np.ndarray, clients: Sequence[int]) -> float:
        """Returns the joules of ``probing_epochs`` on each of ``clients``, summed in order."""
        if self.config.probing_epochs == 0.0:
            return 0.0
        return self.config.probing_epochs * sum(epoch_j[list(clients)].tolist())

    def credit_j(self, epoch_j: np.ndarray, clients: Sequence[int]) -> float:
        """Returns the joules of evaluating a participant's models on ``clients``, charged as probing is."""
        models = {LEAVE_ONE_OUT: 1, SHAPLEY: 2 * self.config.shapley_pairs}.get(self.config.reward, 0)
        return models * self.probing_j(epoch_j, clients) if models else 0.0

    def highest_credit_j(self, epoch_j: np.ndarray, clients: Sequence[int]) -> float:
        """Returns the most that ``credit_j`` can be, whichever of ``clients`` are drawn."""
        highest_first = sorted((self.credit_j(epoch_j, [client]) for client in clients), reverse=True)
        return sum(highest_first[: self.config.credit_clients])

    def selecting_j(self, num_live: int) -> float:
        """Returns the joules of selecting among ``num_live`` clients."""
        return self.config.joules_per_mac * self.config.selector_macs[0] * num_live

    @property
    def learning_j(self) -> float:
        """Returns the joules of learning from one client's participation."""
        return self.config.joules_per_mac * self.config.selector_macs[1]

    def budget_j(self, epoch_j: np.ndarray, live: Sequence[int], names: Sequence[str]) -> float:
        """Returns the joules that a round may spend.

        Args:
            epoch_j: ``float64[num_clients]`` joules of a local epoch.
            live: Clients at the start of an episode.
            names: Names of all clients, for errors.

        Raises:
            ValueError: See ``round_budget_j``.
        """
        index = list(live)
        return round_budget_j(
            self.costs_j(epoch_j)[index],
            self.config.budget_share,
            self.config.budget_j,
            [names[client] for client in index],
            self.probing_j(epoch_j, index),
            self.highest_credit_j(epoch_j, index),
            self.selecting_j(len(index)),
            self.learning_j,
        )

    def highest_costs_j(self) -> np.ndarray:
        """Returns ``float64[num_clients]`` joules at each client's highest configured frequency, with credit."""
        freqs = np.array(self.config.start_freq_hz, dtype=np.float64)
        for change in self.config.device_changes:
            freqs[change.client] = max(freqs[change.client], change.cpu_freq_hz)
        epoch_j = self.epoch_j(freqs)
        return self.costs_j(epoch_j) + self.highest_credit_j(epoch_j, range(len(freqs))) + self.learning_j

    def changed(self, cpu_freq_hz: np.ndarray, round_index: int) -> np.ndarray:
        """Returns the ``float64[num_clients]`` frequencies in ``round_index``, given those of the round before."""
        freqs = cpu_freq_hz.copy()
        for change in self.config.device_changes:
            if change.round == round_index:
                freqs[change.client] = change.cpu_freq_hz
        return freqs
