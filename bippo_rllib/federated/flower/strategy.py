"""The strategy: Flower's rounds, trained by those that the selector picks."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, cast

from flwr.app import ArrayRecord, ConfigRecord, Message, MetricRecord
from flwr.serverapp import Grid
from flwr.serverapp.exception import PrivacyBudgetExhausted
from flwr.serverapp.strategy import Result, Strategy

from bippo_rllib.federated.client_selector import ClientSelector
from bippo_rllib.federated.flower.checks import check_selector, check_strategy
from bippo_rllib.federated.flower.evaluations import Evaluations
from bippo_rllib.federated.flower.inner_strategies import set_num_clients
from bippo_rllib.federated.flower.leave_one_out import effects, models_without
from bippo_rllib.federated.flower.messages import nobody_trains, unnamed
from bippo_rllib.federated.flower.node_reports import NodeReports, client_of
from bippo_rllib.federated.flower.node_snapshot import NodeSnapshot
from bippo_rllib.federated.reports import ClientReport

logger = logging.getLogger(__name__)


@dataclass
class _Run:
    """What is known in one call of ``start``.

    Attributes:
        evaluations: Those of the run.
        arrays: The model before the round.
        reports: What the selector went by in this round.
        selected: Clients that this round's training was sent to.
        trained: Clients whose training counted in the latest round; None before the first.
        without: The model that the round makes without each of them, if effects are learned from.
        has_model: Whether any round has made a model.
    """

    evaluations: Evaluations
    arrays: ArrayRecord
    reports: dict[Any, ClientReport] = field(default_factory=dict)
    selected: list[Any] = field(default_factory=list)
    trained: list[Any] | None = None
    without: dict[Any, ArrayRecord] = field(default_factory=dict)
    has_model: bool = False


class BudgetedStrategy(Strategy):
    """A Flower strategy of any kind with another selection: by a ``ClientSelector``, under a budget in joules.

    All nodes evaluate the model after each round, and once before the first. The strategy configures rounds of all
    nodes, of whose messages those to the selected ones are sent, and aggregates. The training metrics of a round have
    ``energy-j``, what its clients cost, and ``num-selected``.

    Once a model is trained, nothing that a node replies ends the run. A node whose reply to an evaluation is missing or
    cannot be used is not available in the next round; where that is so of all nodes, their earlier reports are used.

    Args:
        strategy: What configures, aggregates and evaluates, for all nodes. Wrappers, such as those for differential
            privacy, belong around it and inside this one.
        selector: Who selects.
        budget_j: Joules that the clients of a round may cost together, at least 0.
        learn: What its policies learn from: ``accuracies``, the change of their mean; ``effects``, leave-one-out as
            ``bippo-r`` was trained, for which all nodes evaluate one more model for each participant, averaged by a
            copy of the strategy; None for nothing.
        client_of: Node id and metrics -> client, any hashable id.

    Raises:
        ValueError: If ``learn`` is something else, for a budget below 0, for a selector that needs other numbers than
            nodes report, and for strategies that select themselves or do not go with ``learn``.
    """

    def __init__(
        self,
        strategy: Strategy,
        selector: ClientSelector,
        budget_j: float,
        *,
        learn: str | None = None,
        client_of: Callable[[int, Mapping[str, Any]], Any] = client_of,
    ) -> None:
        if learn not in ("accuracies", "effects", None):
            raise ValueError(f"learn is {learn!r}; choose 'accuracies', 'effects' or None")
        if not budget_j >= 0.0:
            raise ValueError(f"budget_j is {budget_j}; it must be at least 0 (math.inf for no limit)")
        check_strategy(strategy, effects=learn == "effects")
        check_selector(selector, learns=learn is not None)
        self.strategy, self.selector, self.budget_j = strategy, selector, budget_j
        self._learn, self._client_of = learn, client_of
        self._run: _Run | None = None

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
        """Runs Flower's ``Strategy.start``; of an earlier run only the selector remembers anything.

        Args:
            grid: The nodes.
            initial_arrays: The model to start from.
            num_rounds: Rounds of training.
            timeout: Seconds to wait for the replies to a training or an evaluation.
            train_config: Sent with every training.
            evaluate_config: Sent with every evaluation, also before the first round and for ``effects``.
            evaluate_fn: Evaluates on the server.

        Returns:
            Flower's result; its arrays are the initial ones if no round made a model.

        Raises:
            ValueError: In the first round, if nodes reply to the evaluation and no reply can be used.
        """
        config = ConfigRecord() if evaluate_config is None else evaluate_config
        evaluations = Evaluations(self.strategy, self._client_of, grid, timeout, config)
        run = self._run = _Run(evaluations, initial_arrays)
        try:
            result = super().start(grid, initial_arrays, num_rounds, timeout, train_config, config, evaluate_fn)
        finally:
            self._run = None
        if not run.has_model:
            logger.warning("no round made a model; result.arrays is the initial one")
            result.arrays = initial_arrays
        return result

    def summary(self) -> None:
        """Logs selector and budget, and the strategy's own summary."""
        flower = logging.getLogger("flwr")
        flower.info("\t├──> Selection: %s", self.selector)
        flower.info("\t│\t├── Budget of a round: %g J", self.budget_j)
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
        run.arrays, run.selected, run.without = arrays, [], {}
        nodes = self._nodes_with_reports(server_round, grid)
        run.reports = run.evaluations.available(nodes.node_ids, run.trained)
        node_ids = {client: run.evaluations.node_ids[client] for client in run.reports}
        if warning := unnamed(node_ids, self.selector.policy_ids):
            logger.warning("%s", warning)
        # Without reports nobody is known to have left; the selector would forget the round before.
        run.trained, chosen = [], self.selector.select(run.reports, self.budget_j) if run.reports else []
        if not chosen:
            if reason := nobody_trains(run.reports, self.budget_j):
                logger.warning("round %d trains no client: %s; the model stays as it was", server_round, reason)
            return []
        if (messages := self._configured(server_round, config, nodes)) is None:
            return []
        by_node = {message.metadata.dst_node_id: message for message in messages}
        run.selected = [client for client in chosen if node_ids[client] in by_node]
        if left_out := [client for client in chosen if client not in run.selected]:
            logger.warning("round %d: %s sends nothing to %s", server_round, type(self.strategy).__name__, left_out)
        return [by_node[node_ids[client]] for client in run.selected]

    def aggregate_train(
        self, server_round: int, replies: Iterable[Message]
    ) -> tuple[ArrayRecord | None, MetricRecord | None]:
        """Returns the strategy's own; what the round cost is added to its metrics."""
        run, replies = self._running(), list(replies)
        by_node = {reply.metadata.src_node_id: reply for reply in replies if not reply.has_error()}
        node_ids = {client: run.evaluations.node_ids[client] for client in run.selected}
        trained = {client: by_node[node_id] for client, node_id in node_ids.items() if node_id in by_node}
        arrays, metrics = self._aggregated(server_round, replies, trained)
        if arrays is not None:
            run.trained, run.has_model = list(trained), True
        elif run.selected:
            counts = f"{len(trained)} of {len(run.selected)}"
            logger.warning(
                "round %d made no model: %s clients trained; the model stays as it was", server_round, counts
            )
        metrics = MetricRecord() if metrics is None else metrics
        metrics["energy-j"] = float(sum(run.reports[client].cost_j for client in run.selected))
        metrics["num-selected"] = len(run.selected)
        return arrays, metrics

    def configure_evaluate(
        self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid
    ) -> Iterable[Message]:
        """Returns the strategy's own, for a copy of ``config``, into which strategies write."""
        return self.strategy.configure_evaluate(server_round, arrays, config.copy(), cast(Grid, NodeSnapshot(grid)))

    def aggregate_evaluate(self, server_round: int, replies: Iterable[Message]) -> MetricRecord | None:
        """Returns the strategy's own, of the replies that can be used; reports to the selector how the round went."""
        run, replies = self._running(), list(replies)
        evaluation = run.evaluations.read(replies)
        run.evaluations.keep(server_round, evaluation)
        if evaluation.reports and run.reports:
            self._report(server_round, evaluation)
        usable = [reply for reply in replies if reply.metadata.src_node_id not in evaluation.refused]
        try:
            return self.strategy.aggregate_evaluate(server_round, usable)
        except Exception as error:  # of what nodes reply or of a user's function: no metrics are worth a model
            logger.warning("round %d has no evaluation metrics: %s: %s", server_round, type(error).__name__, error)
            return None

    def _running(self) -> _Run:
        if self._run is None:
            name = type(self).__name__
            raise ValueError(
                f"{name} is inside another strategy, which would not know how many clients it selects; turn it round: "
                f"{name}(Wrapper(FedAvg(), ...), selector, budget_j), and call its start()"
            )
        return self._run

    def _nodes_with_reports(self, server_round: int, grid: Grid) -> NodeSnapshot:
        """The nodes that are online; they are asked for reports if none of them has any."""
        run, nodes = self._running(), NodeSnapshot(grid)
        if run.evaluations.available(nodes.node_ids, run.trained):
            return nodes
        evaluation = run.evaluations.ask(server_round - 1, run.arrays)
        if evaluation.refused and not evaluation.reports and not run.has_model:
            raise ValueError(f"no reply to the first evaluation can be used: {evaluation.refusals()}")
        run.evaluations.keep(server_round - 1, evaluation)
        return NodeSnapshot(grid)

    def _configured(self, server_round: int, config: ConfigRecord, nodes: NodeSnapshot) -> Iterable[Message] | None:
        """The strategy's messages for a round of all nodes; None once a privacy budget is spent."""
        set_num_clients(self.strategy, len(nodes.node_ids))
        try:
            return self.strategy.configure_train(server_round, self._running().arrays, config, cast(Grid, nodes))
        except PrivacyBudgetExhausted as error:
            logger.warning("round %d trains no client: %s", server_round, error)
            return None

    def _aggregated(
        self, server_round: int, replies: list[Message], trained: Mapping[Any, Message]
    ) -> tuple[ArrayRecord | None, MetricRecord | None]:
        """The strategy's own; nothing where nobody replied, or it fails at replies of later rounds than the first."""
        run = self._running()
        if not replies:
            return None, None
        set_num_clients(self.strategy, max(1, len(trained)))
        try:
            if self._learn == "effects":
                run.without = models_without(self.strategy, server_round, trained, run.arrays)
            return self.strategy.aggregate_train(server_round, replies)
        except Exception as error:  # of what nodes reply or of a user's function, as above
            if not run.has_model:
                raise
            logger.warning("round %d is lost: %s: %s", server_round, type(error).__name__, error)
            return None, None

    def _report(self, server_round: int, evaluation: NodeReports) -> None:
        """Reports to the selector what was measured of the round; nothing where nothing was."""
        run = self._running()
        trained = run.trained or []
        if self._learn == "accuracies" and (not trained or run.reports.keys() & evaluation.reports.keys()):
            accuracies = {client: report.accuracy for client, report in evaluation.reports.items()}
            self.selector.update(trained, accuracies)
        elif self._learn == "effects":
            models = {client: run.without[client] for client in trained}
            measured = effects(evaluation.reports, models, lambda m: run.evaluations.ask(server_round, m).reports)
            self.selector.update(list(measured), effects=measured)
