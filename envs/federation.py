"""The rules of the environment, without its API: clients, data, costs, and what a round does to the global model."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from torch import Tensor, nn

from envs.agent_ids import client_names
from envs.config import FederationConfig
from envs.data.datasets import load_dataset
from envs.data.partition import Partition
from envs.devices import CostModel
from envs.episode_state import EpisodeState
from envs.imports import is_import
from envs.own_effects import OwnEffects
from envs.rng import RoundKey, keyed_seed
from envs.round_result import RoundResult
from envs.round_rewards import RoundRewards
from envs.rules.budget import split_budget
from envs.rules.churn import Changes
from envs.rules.leave_one_out import drawn_clients
from envs.rules.observation import cost_shares
from envs.rules.reward import OWN_EFFECT, RoundOutcome, effect_reward
from envs.settings.energy import FORMULA
from envs.training import aggregation
from envs.training.aggregation import WeightedSum
from envs.training.energy_meter import own_counter
from envs.training.executor import Executor
from envs.training.meter_readings import MeterWarnings, complete_readings_j, measured_j
from envs.training.models import build_model, check_last_batches, get_flat, num_parameters, output_bias
from envs.training.new_executor import new_executor
from envs.training.server_step import ServerStep

Updates = Mapping[int, WeightedSum]


class RoundBudget(NamedTuple):
    """What a round may spend, in joules; all 0 if the budget does not suffice for probing and selecting."""

    probing_j: float  #: On probing all live clients.
    selecting_j: float  #: On selecting among them.
    training_j: float  #: On training: what the two leave of the budget.


class Federation:
    """A federation at work. Its constructor loads data and assigns samples; it trains nothing.

    Args:
        config: The federation.
        make_executor: What trains and evaluates, given the configuration; None for what ``config.executor`` names.

    Attributes:
        names: ``client_000``, ... by client id.
        labels: Per client the labels it holds.
        num_samples: ``int64[num_clients]`` training samples.
        num_parameters: Parameters of the model.
        num_weights: Length of its flat weights, buffers included.
        cost_model: Joules by client and frequency.
        start_costs_j: ``float64[num_clients]`` costs at the start.
        schedule: Who joins and leaves when.
        budget_j: Joules a round may spend, by the formula; see ``budget_of``.
        warmup_energy_j: Joules of round 0.

    Raises:
        ValueError: If data is missing, the partition cannot be filled, the model cannot train on the last batch of a
            client or the budget is below probing or the cheapest client.
    """

    def __init__(
        self, config: FederationConfig, make_executor: Callable[[FederationConfig], Executor] | None = None
    ) -> None:
        self.config = config
        self._make_executor = make_executor
        self._executor: Executor | None = None
        self._assigned_seed: int | None = None
        self._label_counts: tuple[int, np.ndarray] | None = None
        self._dataset = load_dataset(config.dataset, config.data_dir)
        self.names = client_names(config.num_clients)
        partition = Partition.of(config, self._dataset, config.seed)
        self.labels = partition.labels
        self.num_samples = np.array([len(indices) for indices in partition.train])
        model = self._model(seed=0)
        self.num_parameters, self.num_weights = num_parameters(model), len(get_flat(model))
        if config.with_output_bias:
            output_bias(model, len(self._dataset.classes))
        check_last_batches(config, model, self._dataset.input_shape, self.num_samples, self.names)
        self._server_step = ServerStep(config.aggregation) if is_import(config.aggregation) else None
        self._round_rewards = RoundRewards(config)
        values_per_sample = int(np.prod(self._dataset.input_shape))
        self.cost_model = CostModel(config, self.num_parameters, values_per_sample, self.num_samples)
        epoch_j = self.cost_model.epoch_j(config.start_freq_hz)
        self.start_costs_j = self.cost_model.costs_j(epoch_j)
        self.schedule = config.churn_schedule()
        if is_import(config.energy_meter):
            own_counter(config.energy_meter)
        if config.energy_meter != FORMULA and config.budget_j is not None:
            self.budget_j = float(config.budget_j)  # measured joules, which round 0 is to be compared with
        else:
            self.budget_j = self.cost_model.budget_j(epoch_j, self.schedule.live_at_start, self.names)
        self._meter_warnings = MeterWarnings(config.energy_meter, self.names)
        live = list(self.schedule.live_at_start)
        self.warmup_energy_j = float(np.sum(self.cost_model.costs_j(epoch_j, epochs=1)[live]))

    def close(self) -> None:
        """Ends the executor's workers; another one is made when it is needed."""
        if self._executor is not None:
            self._executor.close()
        self._executor = self._assigned_seed = None

    def start(self, key: RoundKey) -> EpisodeState:
        """Runs round 0: all clients live at the start train one epoch from a fresh initialisation."""
        live = self.schedule.live_at_start
        initial = get_flat(self._model(keyed_seed("initialisation", key.seed, key.episode)))
        result, updates = self._trained(initial, live, key, epochs=1)
        if not result.num_samples:
            raise ValueError(f"no client's training succeeded in round 0: {result.failed[0].reason}")
        weights, server_state = self._next_model(initial, result, updates, {})
        failed = result.failed_clients
        state = EpisodeState.begin(key, live, weights, self.config.start_freq_hz, self.config.with_loss)
        state.set_flags(trained=sorted(set(live) - set(failed)), failed=failed, dropped=())
        state.initialize_readings(complete_readings_j(result))
        self._meter_warnings.check(result, round_index=0)
        state.update_reports = dict(result.update_reports)
        state.server_state = server_state
        self._report_costs(state)
        if self.config.energy_meter != FORMULA:
            state.budget_j = self.cost_model.budget_j(self._epoch_j(state), live, self.names)
        self._evaluate(state, live)
        return state

    def largest_cost_share(self) -> float:
        """Returns the highest cost that is observed, as a share of the budget; a meter may read more."""
        largest = float(cost_shares(self.cost_model.highest_costs_j(), self.budget_j).max())
        return largest if self.config.energy_meter == FORMULA else max(largest, 1.0)

    def budget_of(self, state: EpisodeState | None) -> float:
        """Returns the joules that a round of the episode may spend."""
        return self.budget_j if state is None or state.budget_j is None else state.budget_j

    def training_budget_j(self, state: EpisodeState) -> float:
        """Returns the joules that the next round may spend on training."""
        return self._round_budget(state).training_j

    def _round_budget(self, state: EpisodeState) -> RoundBudget:
        probing_j, selecting_j = state.probing_j, self.cost_model.selecting_j(len(state.live))
        overhead_j, training_j = split_budget(self.budget_of(state), probing_j + selecting_j)
        return RoundBudget(probing_j, selecting_j, training_j) if overhead_j else RoundBudget(0.0, 0.0, training_j)

    def run_round(self, state: EpisodeState, selected: list[int], dropped: list[int], energy_j: float) -> RoundResult:
        """Trains ``selected``, averages, evaluates, lets clients come and go, and moves ``state`` on by one round."""
        started = time.perf_counter()
        live, before, budget = state.live, state.accuracies.copy(), self._round_budget(state)
        state.update_reports = {}
        failed, own, read_j = self._train(state, selected) if selected else ([], {}, None)
        trained = sorted(set(selected) - set(failed))
        joined, departed = self._changes(state)
        self._evaluate(state, joined)
        stayed = [client for client in live if client not in departed]
        energy_j += budget.probing_j + budget.selecting_j
        accuracies = before[stayed], state.accuracies[stayed]
        outcome = RoundOutcome(*accuracies, tuple(stayed), tuple(trained), energy_j, self.budget_of(state))
        reward, rewards = self._round_rewards.compute(outcome if trained and stayed else None, live, own)
        done = RoundResult(
            round=state.round + 1,
            mean_accuracy=float(np.mean(state.accuracies[list(live)])),
            reward=reward,
            rewards=rewards,
            energy_j=energy_j,
            budget_j=self.budget_of(state),
            clients=live,
            costs_j=tuple(state.costs_j[list(live)].tolist()),
            trained=tuple(trained),
            failed=tuple(sorted(failed)),
            dropped=tuple(sorted(dropped)),
            joined=joined,
            departed=departed,
            accuracies=tuple(state.accuracies[list(live)].tolist()),
            fl_seconds=time.perf_counter() - started,
            probing_j=budget.probing_j,
            selection_j=budget.selecting_j + self.cost_model.learning_j * len(selected),
            measured_j=read_j,
            meter_warnings=self._meter_warnings.take(),
        )
        self._move_on(state, done)
        return done

    def _move_on(self, state: EpisodeState, done: RoundResult) -> None:
        """Changes ``state`` to that after ``done``, with the costs of the next round."""
        state.round, state.last_round = done.round, done
        state.set_flags(done.trained, done.failed, done.dropped)
        state.granted_j = np.where(state.trained | state.failed, state.costs_j, 0.0)
        state.live = tuple(sorted({*done.clients, *done.joined} - {*done.departed}))
        state.stays[list(done.joined)] += 1
        self._report_costs(state)

    def _changes(self, state: EpisodeState) -> Changes:
        """Returns the clients that join and leave at the end of the present round; the last round ends for all."""
        if state.round + 1 >= self.config.rounds:
            return Changes()
        return self.schedule.changes(state.live, state.seed, state.episode, state.round + 1)

    def _train(self, state: EpisodeState, selected: list[int]) -> tuple[list[int], dict[int, float], float | None]:
        """Trains ``selected`` and replaces the global model, unless all ``selected`` fail.

        Returns:
            Clients that failed, rewards by participant where each has one, and the joules that a meter read.
        """
        has_effects, epochs = self.config.reward in OWN_EFFECT, self.config.local_epochs
        result, updates = self._trained(state.weights, selected, state.next_key, epochs, each=has_effects)
        effects = self._own_effects(state, updates if has_effects else {})
        if result.num_samples:
            state.weights, state.server_state = self._next_model(state.weights, result, updates, state.server_state)
            self._evaluate(state, state.live)
        complete = float(np.mean(state.accuracies[list(self._credit_clients(state))]))
        own = {client: effect_reward(d, self.config.reward_base) for client, d in effects.given(complete).items()}
        state.record_readings(complete_readings_j(result), epochs)
        state.update_reports = dict(result.update_reports)
        self._meter_warnings.check(result, state.round + 1)
        return result.failed_clients, own, measured_j(result)

    def _trained(
        self, weights: Tensor, clients: Sequence[int], key: RoundKey, epochs: int, *, each: bool = False
    ) -> tuple[WeightedSum, Updates]:
        """Returns the merged sum, and those of single clients if they are needed."""
        executor = self._get_executor(key.seed)
        if not each and self._server_step is None:
            return executor.train(weights, clients, key, epochs), {}
        updates = executor.train_each(weights, clients, key, epochs)
        return aggregation.merged(updates.values()), updates

    def _next_model(
        self, weights: Tensor, result: WeightedSum, updates: Updates, server_state: Mapping[str, Any]
    ) -> tuple[Tensor, Mapping[str, Any]]:
        if self._server_step is None:
            return aggregation.mean(result), server_state
        return self._server_step.next_model(weights, updates, server_state)

    def _own_effects(self, state: EpisodeState, updates: Updates) -> OwnEffects:
        """Evaluates the models that the rewards of single participants need, before the round's own."""
        executor, clients, config = self._get_executor(state.seed), self._credit_clients(state), self.config

        def accuracy(weights: Tensor) -> float:
            return float(np.mean(executor.accuracies(weights, clients)))

        before = float(np.mean(state.accuracies[list(clients)]))

        step = self._server_step
        average = None if step is None else lambda some: step.next_model(state.weights, some, state.server_state)[0]
        return OwnEffects(config.reward, updates, state.next_key, config.shapley_pairs, accuracy, before, average)

    def _credit_clients(self, state: EpisodeState) -> tuple[int, ...]:
        """Returns the clients that evaluate for rewards of single participants in the next round."""
        return drawn_clients(state.live, self.config.credit_clients, state.next_key)

    def _evaluate(self, state: EpisodeState, clients: tuple[int, ...]) -> None:
        """Evaluates the global model on ``clients``."""
        if not clients:
            return
        executor, index = self._get_executor(state.seed), list(clients)
        state.accuracies[index] = executor.accuracies(state.weights, clients)
        if state.losses is not None:
            state.losses[index] = executor.losses(state.weights, clients)

    def _report_costs(self, state: EpisodeState) -> None:
        """Updates the costs that clients report for the next round, on the devices they have then."""
        state.cpu_freq_hz = self.cost_model.changed(state.cpu_freq_hz, round_index=state.round + 1)
        epoch_j = self._epoch_j(state)
        credit_j = self.cost_model.credit_j(epoch_j, self._credit_clients(state))
        state.costs_j = self.cost_model.costs_j(epoch_j) + credit_j + self.cost_model.learning_j
        state.probing_j = self.cost_model.probing_j(epoch_j, state.live)

    def _epoch_j(self, state: EpisodeState) -> np.ndarray:
        return self.cost_model.epoch_j(state.cpu_freq_hz, state.metered_epoch_j)

    def label_counts(self, seed: int) -> np.ndarray:
        """Returns ``int64[num_clients, num_classes]`` training samples of each class, by the clients' labels."""
        if self._label_counts is None or self._label_counts[0] != seed:
            self._label_counts = seed, Partition.of(self.config, self._dataset, seed).label_counts(self._dataset)
        return self._label_counts[1]

    def _model(self, seed: int) -> nn.Module:
        return build_model(self.config.model_name, self._dataset.input_shape, len(self._dataset.classes), seed)

    def _get_executor(self, seed: int) -> Executor:
        """Returns the executor, which holds the samples drawn from ``seed``."""
        if self._executor is None:
            self._executor = (self._make_executor or new_executor)(self.config)
        if self._assigned_seed != seed:
            partition = Partition.of(self.config, self._dataset, seed)
            partition.check_sizes(self.num_samples)
            self._executor.assign(partition)
            self._assigned_seed = seed
        return self._executor
