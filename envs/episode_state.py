"""Everything that changes while an episode runs."""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from torch import Tensor

from envs.checks import positive
from envs.rng import RoundKey
from envs.round_result import RoundResult


@dataclass
class EpisodeState:
    """The state of a run between two rounds. Generators are keyed, so none needs saving."""

    seed: int  #: Seed of samples, initialisations and shuffles.
    episode: int  #: Episodes since that seed was set.
    round: int  #: Rounds done, round 0 not counted.
    live: tuple[int, ...]  #: Client ids live in the next round, ascending; empty once the episode has ended.
    stays: np.ndarray  #: ``int64[num_clients]`` stays each client has begun in this episode.
    weights: Tensor  #: ``float32[P]`` flat global weights.
    accuracies: np.ndarray  #: ``float64[num_clients]``; of a client that left, its last one.
    losses: np.ndarray | None  #: ``float64[num_clients]``, as ``accuracies``; None without ``with_loss``.
    trained: np.ndarray  #: ``bool[num_clients]`` trained in the last round.
    dropped: np.ndarray  #: ``bool[num_clients]`` turned down in the last round.
    failed: np.ndarray  #: ``bool[num_clients]`` selected in the last round, and its training failed.
    granted_j: np.ndarray  #: ``float64[num_clients]`` joules granted in the last round.
    cpu_freq_hz: np.ndarray  #: ``float64[num_clients]`` frequencies now.
    costs_j: np.ndarray  #: ``float64[num_clients]`` costs of the next round, as reported.
    last_round: RoundResult | None  #: The last round; None after round 0.
    #: Joules that probing all live clients takes in the next round, whether or not the budget suffices.
    probing_j: float = 0.0
    #: ``float64[num_clients]`` joules of an epoch of each client's last training as a meter read them, NaN for one that
    #: it has not read; None if it has read none.
    metered_epoch_j: np.ndarray | None = None
    #: Joules a round may spend, as measured in round 0; None for what the configuration says.
    budget_j: float | None = None
    #: Reports about the updates of the clients that trained in the last round, by client and info key.
    update_reports: Mapping[int, Mapping[str, Any]] = field(default_factory=dict)

    #: What a user's own server step keeps from round to round.
    server_state: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def begin(
        cls, key: RoundKey, live: tuple[int, ...], weights: Tensor, cpu_freq_hz: Sequence[float], with_loss: bool
    ) -> EpisodeState:
        """Returns the state after round 0, before clients are evaluated and report costs."""
        num_clients = len(cpu_freq_hz)
        return cls(
            seed=key.seed,
            episode=key.episode,
            round=key.round,
            live=live,
            stays=np.isin(np.arange(num_clients), live).astype(np.int64),
            weights=weights,
            accuracies=np.zeros(num_clients),
            losses=np.zeros(num_clients) if with_loss else None,
            trained=np.zeros(num_clients, dtype=bool),
            dropped=np.zeros(num_clients, dtype=bool),
            failed=np.zeros(num_clients, dtype=bool),
            granted_j=np.zeros(num_clients),
            cpu_freq_hz=np.array(cpu_freq_hz, dtype=np.float64),
            costs_j=np.zeros(num_clients),
            last_round=None,
        )

    @property
    def key(self) -> RoundKey:
        """Returns the key of the last round done."""
        return RoundKey(self.seed, self.episode, self.round)

    @property
    def next_key(self) -> RoundKey:
        """Returns the key of the next round."""
        return RoundKey(self.seed, self.episode, self.round + 1)

    def set_flags(self, trained: Sequence[int], failed: Sequence[int], dropped: Sequence[int]) -> None:
        """Sets which clients trained in the last round, failed to, and were turned down."""
        for flags, clients in ((self.trained, trained), (self.failed, failed), (self.dropped, dropped)):
            flags[:] = False
            flags[list(clients)] = True

    def initialize_readings(self, readings_j: Sequence[tuple[int, float]]) -> None:
        """Records readings of round 0, in which clients train one epoch; without any, costs are the formula's."""
        if readings_j:
            self.metered_epoch_j = np.full(len(self.costs_j), np.nan)
            self.record_readings(readings_j, epochs=1)

    def record_readings(self, readings_j: Sequence[tuple[int, float]], epochs: int) -> None:
        """Records a meter's readings, by client, of ``epochs`` epochs of training."""
        if self.metered_epoch_j is not None:
            for client, joules in readings_j:
                self.metered_epoch_j[client] = joules / epochs

    def set_cpu_freq_hz(self, client: int, freq_hz: float) -> None:
        """Changes a client's device.

        Raises:
            ValueError: If there is no such client, the frequency is not a finite number above 0, or costs are measured.
        """
        if not 0 <= client < len(self.cpu_freq_hz):
            raise ValueError(f"client is {client}; it must be from 0 to {len(self.cpu_freq_hz) - 1}")
        positive("freq_hz", freq_hz)
        if self.metered_epoch_j is not None:
            raise ValueError("set_cpu_freq_hz changes no cost that energy_meter measures; use energy_meter='formula'")
        self.cpu_freq_hz[client] = freq_hz

    def copy(self) -> EpisodeState:
        """Returns a copy for a round to write to; it shares the weights, which are replaced and never written to."""
        state = copy.copy(self)
        for name, value in vars(self).items():
            if isinstance(value, np.ndarray):
                setattr(state, name, value.copy())
        return state

    def to_dict(self) -> dict[str, Any]:
        """Returns a deep copy as plain Python, NumPy and torch values."""
        return dataclasses.asdict(self)

    @classmethod
    def from_dict(cls, state: dict[str, Any], num_clients: int, num_weights: int) -> EpisodeState:
        """Restores a state from what ``to_dict`` returned; shares nothing with ``state``.

        Raises:
            ValueError: If the state is that of another number of clients or weights.
        """
        for what, found, expected in (
            ("clients", len(state["accuracies"]), num_clients),
            ("weights", len(state["weights"]), num_weights),
        ):
            if found != expected:
                raise ValueError(f"the state has {found} {what}, this env {expected}; use the same configuration")
        fields = copy.deepcopy(state)
        if fields["last_round"] is not None:
            fields["last_round"] = RoundResult(**fields["last_round"])
        return cls(**fields)
