"""The strategy: Flower's rounds, trained by the clients that the selector picks."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, cast

from flwr.app import ArrayRecord, ConfigRecord, Message, MetricRecord
from flwr.serverapp import Grid
from flwr.serverapp.strategy import Result, Strategy

from bippo_rllib.federated.client_selector import ClientSelector
from bippo_rllib.federated.flower.checkpoints import Checkpoints
from bippo_rllib.federated.flower.checks import check_selector, check_strategy
from bippo_rllib.federated.flower.coalition_models import CoalitionModels
from bippo_rllib.federated.flower.evaluations import Evaluations
from bippo_rllib.federated.flower.history import History
from bippo_rllib.federated.flower.inner_rounds import aggregated, configured, evaluated
from bippo_rllib.federated.flower.learning import learned_from, update
from bippo_rllib.federated.flower.limits import Budget, Eligible, Limits, budget_of, checked_batteries
from bippo_rllib.federated.flower.messages import without_report
from bippo_rllib.federated.flower.node_reports import client_of
from bippo_rllib.federated.flower.node_snapshot import NodeSnapshot
from bippo_rllib.federated.flower.profiles import profiles_of
from bippo_rllib.federated.flower.running import Round, Running, RunState, first_records, renumber
from bippo_rllib.federated.flower.selecting import messages_to, select

logger = logging.getLogger(__name__)


class BudgetedStrategy(Strategy):
    """A Flower strategy of any kind whose clients are selected by a ``ClientSelector``, under a budget in joules.

    All nodes evaluate the model after each round, and once before the first. The inner strategy configures rounds of
    all nodes, of whose messages those to the selected ones are sent, and aggregates. The training metrics of a round
    have ``energy-j``, what its clients cost, and ``num-selected``.

    Once a model is trained, nothing that a node replies ends the run. A node whose reply to an evaluation is missing or
    cannot be used is not available in the next round; where that is so of all nodes, their earlier reports are used.

    Args:
        strategy: What configures, aggregates and evaluates, for all nodes. Wrappers, such as those for differential
            privacy, belong around it and inside this one.
        selector: What selects.
        budget_j: Joules that the clients of a round may cost together, at least 0, or a function of the round, which is
            counted from 1.
        learn: What the selector's policies learn from: ``accuracies``, the change of their mean; ``effects``, what each
            participant changed, leave-one-out or Shapley as the selector's reward says, for which all nodes evaluate
            further models; None for nothing; ``auto`` for what its reward is of, if any of its policies learns.
        batteries_j: Joules that are left, by client. What it costs to train a client is taken off, and one whose
            battery does not cover its cost is not selected. A client without an entry has no limit.
        eligible: Client, what its node sent with the latest evaluation, round -> whether it may be selected.
        client_of: Node id and metrics -> client, any hashable id.
        history_path: A file for the records of ``history``, one JSON object a line, written after every round.
        checkpoint_path: A file in which the run is saved after every round, for ``load``.

    Attributes:
        history: A record for each round and client, see ``History``.
        batteries_j: Joules that are left by now; they may be changed between rounds, for batteries that are charged.

    Raises:
        ValueError: If ``learn`` is something else, for a budget or a battery below 0, for a selector that needs other
            numbers than nodes report, and for strategies that select themselves or do not go with ``learn``.
    """

    def __init__(
        self,
        strategy: Strategy,
        selector: ClientSelector,
        budget_j: Budget,
        *,
        learn: str | None = "auto",
        batteries_j: Mapping[Any, float] | None = None,
        eligible: Eligible | None = None,
        client_of: Callable[[int, Mapping[str, Any]], Any] = client_of,
        history_path: str | Path | None = None,
        checkpoint_path: str | Path | None = None,
    ) -> None:
        self._learn = learned_from(learn, selector)
        budget_of(budget_j, 1)
        self.batteries_j = checked_batteries(batteries_j or {})
        check_strategy(strategy, effects=self._learn == "effects")
        check_selector(selector, learns=self._learn is not None)
        self.strategy, self.selector, self.budget_j = strategy, selector, budget_j
        self.history = History(history_path)
        self._eligible, self._client_of = eligible, client_of
        self._checkpoints = Checkpoints(strategy, self.history, checkpoint_path)
        self._run: Running | None = None

    def start(
        self,
        grid: Grid,
        initial_arrays: ArrayRecord,
        num_rounds: int = 3,
        timeout: float = 3600,
        train_config: ConfigRecord | None = None,
        evaluate_config: ConfigRecord | None = None,
        evaluate_fn: Callable[[int, ArrayRecord], MetricRecord | None] | None = None,
    ) -> Result:
        """Runs Flower's ``Strategy.start``; after ``load``, its rounds from the one on that was not complete.

        Of an earlier run only the selector, the batteries and the inner strategy remember anything, and the selector no
        update profiles, which are of another model.

        Args:
            grid: The nodes.
            initial_arrays: The model to start from; the saved one takes its place after ``load``.
            num_rounds: Rounds of training, those before ``load`` among them.
            timeout: Seconds to wait for the replies to a training or an evaluation.
            train_config: Sent with every training.
            evaluate_config: Sent with every evaluation, also before the first round and for ``effects``.
            evaluate_fn: Evaluates on the server.

        Returns:
            Flower's result, with metrics of the rounds of this call; its arrays are the initial ones if no round made a
            model.

        Raises:
            ValueError: In the first round, if nodes reply to the evaluation and no reply can be used.
        """
        config = ConfigRecord() if evaluate_config is None else evaluate_config
        needs_loss = self.selector.needs_loss
        evaluations = Evaluations(self.strategy, self._client_of, grid, timeout, config, needs_loss=needs_loss)
        state = self._checkpoints.start(initial_arrays)
        run = self._run = Running(evaluations, state, state.last_round)
        evaluations.latest = state.latest
        if not state.last_round:
            self.selector.forget_updates()
        left = max(0, num_rounds - state.last_round)
        shifted = (
            None if evaluate_fn is None else lambda number, arrays: evaluate_fn(run.rounds_before + number, arrays)
        )
        try:
            result = super().start(grid, state.arrays, left, timeout, train_config, config, shifted)
        finally:
            self._run = None
        renumber(result, run.rounds_before)
        if not run.state.has_model:
            logger.warning("no round made a model; result.arrays is the initial one")
        if state.last_round and not left:
            complete = f"the saved run has {state.last_round} rounds, and num_rounds is {num_rounds}"
            logger.warning("%s: none is left; raise num_rounds, or start a new run with other files", complete)
        result.arrays = run.state.arrays
        return result

    def save(self, path: str | Path) -> None:
        """Saves the run as it was when its latest round was complete, between rounds or after ``start``.

        The file holds the model, the round, the selector, the latest reports, the batteries, what the inner strategy
        remembers, and the length of the history's file.

        Args:
            path: The file; one that is there is replaced at once.

        Raises:
            ValueError: If no round is complete, one is going on, or there is something that no file can hold.
        """
        self._checkpoints.save(path)

    def load(self, path: str | Path) -> None:
        """Takes over a saved run, with its selector and batteries, so that ``start`` goes on with the next round.

        Args:
            path: What ``save`` wrote, or ``checkpoint_path`` of the run that was ended.

        Raises:
            ValueError: If there is none, it is damaged, its inner strategies are of other classes, its selector has
                other settings, or the history's file is another run's; in one line. The strategy is unchanged then.
        """
        saved = self._checkpoints.load(path, self.selector)
        self.selector, self.batteries_j = saved.selector, saved.batteries_j

    def summary(self) -> None:
        """Logs selector and budget, then the inner strategy's summary."""
        flower = logging.getLogger("flwr")
        flower.info("\t├──> Selection: %s", self.selector)
        flower.info(
            "\t│\t├── Budget of a round: %s J", "a function of the round" if callable(self.budget_j) else self.budget_j
        )
        flower.info("\t│\t└── Learns from: %s", self._learn or "nothing")
        self.strategy.summary()

    def configure_train(
        self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid
    ) -> Iterable[Message]:
        """Selects by the latest reports.

        Raises:
            ValueError: If ``start`` was called on a strategy around this one, or no reply to the first evaluation can
                be used.
        """
        run = self._running()
        self._checkpoints.open_round()
        now = run.round = Round(run.rounds_before + server_round, arrays, profiles=run.state.profiles)
        nodes = self._nodes_with_reports(run, now, grid)
        limits = Limits(self.budget_j, self.batteries_j, self._eligible)
        chosen = select(self.selector, limits, run.evaluations.latest, now)
        messages = configured(self.strategy, now.number, arrays, config, nodes) if chosen else None
        if messages is None:
            return []
        sent = messages_to(chosen, run.evaluations.latest.node_ids, messages, self.strategy, now)
        limits.discharge(now.costs_j)
        return sent

    def aggregate_train(
        self, server_round: int, replies: Iterable[Message]
    ) -> tuple[ArrayRecord | None, MetricRecord | None]:
        """Returns the inner strategy's model and metrics, to which what the round cost is added."""
        run, replies = self._running(), list(replies)
        now, node_ids = self._round(), run.evaluations.latest.node_ids
        by_node = {reply.metadata.src_node_id: reply for reply in replies if not reply.has_error()}
        trained = {client: by_node[node_ids[client]] for client in now.selected if node_ids[client] in by_node}
        if self._learn == "effects" and trained:
            now.coalitions = CoalitionModels(self.strategy, now.number, trained)
        size, profiles = self.selector.profile_size, {}
        if size is not None and trained:
            profiles = profiles_of(trained, now.arrays, now.reports, size)
        now.made, metrics = aggregated(self.strategy, now.number, replies, len(trained), may_fail=run.state.has_model)
        if now.made is not None:
            now.trained, now.profiles = list(trained), now.profiles | profiles
        elif now.selected:
            counts = f"{len(trained)} of {len(now.selected)}"
            logger.warning("round %d made no model: %s clients trained; the model stays as it was", now.number, counts)
        metrics = MetricRecord() if metrics is None else metrics
        metrics["energy-j"] = float(sum(now.costs_j.values()))
        metrics["num-selected"] = len(now.selected)
        return now.made, metrics

    def configure_evaluate(
        self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid
    ) -> Iterable[Message]:
        """Returns the inner strategy's messages, for a copy of ``config``, into which strategies write."""
        return self.strategy.configure_evaluate(
            self._round().number, arrays, config.copy(), cast(Grid, NodeSnapshot(grid))
        )

    def aggregate_evaluate(self, server_round: int, replies: Iterable[Message]) -> MetricRecord | None:
        """Returns the inner strategy's metrics of the replies that can be used, and updates the selector."""
        run, now, replies = self._running(), self._round(), list(replies)
        evaluation = run.evaluations.read(replies)
        run.evaluations.keep(now.number, evaluation)
        usable = [reply for reply in replies if reply.metadata.src_node_id not in evaluation.refused]
        metrics = evaluated(self.strategy, now.number, usable)
        effects = update(self.selector, self._learn, now, evaluation, run.evaluations)
        self.history.append(now.records(evaluation, effects))
        run.state = RunState(
            arrays=now.arrays if now.made is None else now.made,
            last_round=now.number,
            latest=run.evaluations.latest,
            trained=now.trained,
            has_model=run.state.has_model or now.made is not None,
            profiles=now.profiles,
        )
        self._checkpoints.close_round(run.state, self.selector, self.batteries_j)
        return metrics

    def _running(self) -> Running:
        if self._run is None:
            name = type(self).__name__
            raise ValueError(
                f"{name} is inside another strategy, which would not know how many clients it selects; turn it round: "
                f"{name}(Wrapper(FedAvg(), ...), selector, budget_j), and call its start()"
            )
        return self._run

    def _round(self) -> Round:
        now = self._running().round
        assert now is not None  # Flower configures a round before anything else
        return now

    def _nodes_with_reports(self, run: Running, now: Round, grid: Grid) -> NodeSnapshot:
        """Sets the round's reports; returns the nodes online, which evaluate the model if none of them has reported."""
        nodes = NodeSnapshot(grid)
        now.reports = run.evaluations.available(nodes.node_ids, run.state.trained, now.profiles)
        if now.reports:
            return nodes
        evaluation = run.evaluations.evaluate(now.number - 1, now.arrays)
        if evaluation.refused and not evaluation.reports and not run.state.has_model:
            raise ValueError(f"no reply to the first evaluation can be used: {evaluation.refusals()}")
        run.evaluations.keep(now.number - 1, evaluation)
        if now.number == 1:
            self.history.append(first_records(evaluation))
            if warning := without_report(self.batteries_j, evaluation.reports):
                logger.warning("%s", warning)
        nodes = NodeSnapshot(grid)
        now.reports = run.evaluations.available(nodes.node_ids, run.state.trained, now.profiles)
        return nodes
