"""The rules of the environment, without its API: clients, data, costs, and what a round does to the global model."""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np
from torch import nn

from envs import aggregation
from envs.budget import round_budget_j
from envs.config import FederationConfig
from envs.datasets import load_dataset
from envs.devices import CostModel
from envs.episode_state import EpisodeState
from envs.executors import Executor, RoundKey
from envs.models import build_model, get_flat, num_parameters, num_weights
from envs.partition import Partition, make_partition
from envs.reward import REWARDS
from envs.rng import keyed_seed
from envs.round_result import RoundResult


def client_names(num_clients: int) -> list[str]:
    """``client_000``, ``client_001``, ...: at least three digits and all of one length, so that they sort as text."""
    width = max(3, len(str(num_clients - 1)))
    return [f"client_{client:0{width}d}" for client in range(num_clients)]


class Federation:
    """A federation at work. Constructing it loads data and deals samples, but trains nothing.

    Args:
        config: The federation.
        make_executor: What trains and evaluates, given the configuration.

    Attributes:
        names: ``client_000``, ... by client id.
        labels: Per client the labels it holds.
        num_samples: ``int64[num_clients]`` training samples.
        num_parameters: Parameters of the model.
        num_weights: Length of its flat weights, buffers included.
        cost_model: Joules by client and frequency.
        start_costs_j: ``float64[num_clients]`` costs at the start.
        budget_j: Joules a round may spend.
        warmup_energy_j: Joules of round 0.

    Raises:
        ValueError: If data is missing, the partition cannot be filled or the budget is below the cheapest client.
    """

    def __init__(self, config: FederationConfig, make_executor: Callable[[FederationConfig], Executor]) -> None:
        self.config = config
        self._make_executor = make_executor
        self._executor: Executor | None = None
        self._assigned_seed: int | None = None
        self._dataset = load_dataset(config.dataset, config.data_dir)
        self.names = client_names(config.num_clients)
        partition = self._partition(config.seed)
        self.labels = partition.labels
        self.num_samples = np.array([len(indices) for indices in partition.train])
        model = self._model(seed=0)
        self.num_parameters, self.num_weights = num_parameters(model), num_weights(model)
        values_per_sample = int(np.prod(self._dataset.input_shape))
        self.cost_model = CostModel(config, self.num_parameters, values_per_sample, self.num_samples)
        self.start_costs_j = self.cost_model.costs_j(config.start_freq_hz)
        self.budget_j = round_budget_j(self.start_costs_j, config.budget_share, config.budget_j, self.names)
        self.warmup_energy_j = float(np.sum(self.cost_model.costs_j(config.start_freq_hz, epochs=1)))

    def start(self, key: RoundKey) -> EpisodeState:
        """Round 0: all clients train one epoch from a fresh initialisation."""
        config = self.config
        executor = self._ready_executor(key.seed)
        clients = tuple(range(config.num_clients))
        initial = get_flat(self._model(keyed_seed("initialisation", key.seed, key.episode)))
        weights = aggregation.mean(executor.train(initial, clients, key, epochs=1))
        freqs = self.cost_model.changed(np.array(config.start_freq_hz, dtype=np.float64), round_index=1)
        return EpisodeState(
            seed=key.seed,
            episode=key.episode,
            round=0,
            live=clients,
            weights=weights,
            accuracies=executor.accuracies(weights, clients),
            losses=executor.losses(weights, clients) if config.with_loss else None,
            participated=np.ones(config.num_clients, dtype=bool),
            dropped=np.zeros(config.num_clients, dtype=bool),
            granted_j=np.zeros(config.num_clients),
            cpu_freq_hz=freqs,
            costs_j=self.cost_model.costs_j(freqs),
            last_round=None,
        )

    def run_round(self, state: EpisodeState, selected: list[int], dropped: list[int], energy_j: float) -> RoundResult:
        """Trains ``selected``, averages, evaluates all live clients and moves ``state`` on by one round."""
        started = time.perf_counter()
        live = list(state.live)
        previous = float(np.mean(state.accuracies[live]))
        if selected:
            self._train(state, selected)
        state.round += 1
        accuracy = float(np.mean(state.accuracies[live]))
        fl_seconds = time.perf_counter() - started
        state.last_round = RoundResult(
            round=state.round,
            mean_accuracy=accuracy,
            reward=self._reward(previous, accuracy) if selected else 0.0,
            energy_j=energy_j,
            budget_j=self.budget_j,
            selected=tuple(sorted(selected)),
            dropped=tuple(sorted(dropped)),
            accuracies=tuple(state.accuracies[live].tolist()),
            fl_seconds=fl_seconds,
        )
        self._book(state, selected, dropped)
        return state.last_round

    def _reward(self, previous: float, current: float) -> float:
        config = self.config
        return REWARDS[config.reward](previous, current, config.reward_base, config.reward_target)

    def _train(self, state: EpisodeState, selected: list[int]) -> None:
        executor = self._ready_executor(state.seed)
        key = RoundKey(state.seed, state.episode, state.round + 1)
        live = list(state.live)
        state.weights = aggregation.mean(executor.train(state.weights, selected, key, self.config.local_epochs))
        state.accuracies[live] = executor.accuracies(state.weights, live)
        if state.losses is not None:
            state.losses[live] = executor.losses(state.weights, live)

    def _book(self, state: EpisodeState, selected: list[int], dropped: list[int]) -> None:
        """Who took part at which cost, and then the costs the clients report for the next round."""
        state.participated[:] = False
        state.participated[selected] = True
        state.dropped[:] = False
        state.dropped[dropped] = True
        state.granted_j = np.where(state.participated, state.costs_j, 0.0)
        state.cpu_freq_hz = self.cost_model.changed(state.cpu_freq_hz, round_index=state.round + 1)
        state.costs_j = self.cost_model.costs_j(state.cpu_freq_hz)

    def _model(self, seed: int) -> nn.Module:
        return build_model(self.config.model_name, self._dataset.input_shape, len(self._dataset.classes), seed)

    def _ready_executor(self, seed: int) -> Executor:
        """The executor, holding the samples drawn from ``seed``."""
        if self._executor is None:
            self._executor = self._make_executor(self.config)
        if self._assigned_seed != seed:
            self._executor.assign(self._partition(seed))
            self._assigned_seed = seed
        return self._executor

    def _partition(self, seed: int) -> Partition:
        data, config = self._dataset, self.config
        return make_partition(
            config.partition,
            data.train_labels.numpy(),
            data.test_labels.numpy(),
            len(data.classes),
            config.train_sizes,
            config.test_sizes,
            alpha=config.alpha,
            seed=seed,
        )
