"""A Flower strategy whose rounds are trained by the clients that a ``ClientSelector`` picks under a budget."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from flwr.app import ArrayRecord, ConfigRecord, Message, MetricRecord
from flwr.serverapp import Grid
from flwr.serverapp.strategy import Strategy

from bippo_rllib.deploy.client_selector import ClientSelector
from bippo_rllib.deploy.reports import Report

logger = logging.getLogger(__name__)

#: What a node puts into the MetricRecord of its reply to an evaluation; ``client-id`` may be left out.
ACCURACY, SAMPLES, COST, CLIENT = "accuracy", "num-train-examples", "cost-j", "client-id"


def client_of(node_id: int, metrics: Mapping[str, Any]) -> Any:
    """``client_003``, as ``envs`` names up to 1,000 clients, for ``client-id`` 3; without one the node's id."""
    return f"client_{int(metrics[CLIENT]):03d}" if CLIENT in metrics else node_id


class BudgetedStrategy(Strategy):
    """A Flower strategy of any kind with another selection: by a ``ClientSelector``, under a budget in joules.

    All nodes evaluate the model after each round, and once before the first; those that do not reply are not available
    in the next. The strategy configures rounds of all nodes, of whose messages those to the selected ones are sent, and
    aggregates. The training metrics of a round have ``energy-j``, what its clients cost, and ``num-selected``.

    Args:
        strategy: Configured for all nodes: ``fraction_train=1.0``, ``fraction_evaluate=1.0``.
        selector: Who selects.
        budget_j: Joules that the clients of a round may cost together.
        learn: What its policies learn from: ``accuracies``, the change of their mean; ``effects``, leave-one-out as
            ``bippo-r`` was trained, for which all nodes evaluate one more model for each participant and the strategy's
            aggregation must keep no state; None for nothing.
        client_of: Node id and metrics -> client, any hashable id.

    Raises:
        ValueError: If ``learn`` is something else.
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
        self.strategy, self.selector, self.budget_j = strategy, selector, budget_j
        self._learn, self._client_of = learn, client_of
        self._reports: dict[Any, Report] = {}
        self._node_ids: dict[Any, int] = {}
        self._chosen: list[Any] = []
        self._trained: list[Any] = []
        self._without: dict[Any, ArrayRecord] = {}

    def summary(self) -> None:
        """Logs the strategy's own summary."""
        self.strategy.summary()

    def configure_train(
        self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid
    ) -> Iterable[Message]:
        """Selects by the latest reports.

        Raises:
            ValueError: If no node reported, or the strategy leaves out nodes of its own accord.
        """
        self._grid, self._arrays = grid, arrays
        if not self._reports:
            self._keep_reports(self._evaluated(server_round, arrays))
        self._chosen = self.selector.select(self._reports, self.budget_j)
        messages = self.strategy.configure_train(server_round, arrays, config, grid)
        by_node = {message.metadata.dst_node_id: message for message in messages}
        absent = [client for client in self._chosen if self._node_ids[client] not in by_node]
        if absent:
            online = set(grid.get_node_ids())
            if left_out := [client for client in absent if self._node_ids[client] in online]:
                raise ValueError(f"{type(self.strategy).__name__} leaves out {left_out}; give it fraction_train=1.0")
            logger.warning("%s went offline after being selected and is not trained", absent)
            self._chosen = [client for client in self._chosen if client not in absent]
        return [by_node[self._node_ids[client]] for client in self._chosen]

    def aggregate_train(
        self, server_round: int, replies: Iterable[Message]
    ) -> tuple[ArrayRecord | None, MetricRecord | None]:
        """The strategy's own; what the round cost is added to its metrics."""
        replies = list(replies)
        by_node = {reply.metadata.src_node_id: reply for reply in replies if not reply.has_error()}
        trained = {c: by_node[self._node_ids[c]] for c in self._chosen if self._node_ids[c] in by_node}
        self._trained = list(trained)
        if self._learn == "effects":
            for client in trained:
                others = [reply for other, reply in trained.items() if other != client]
                self._without[client] = self._averaged(server_round, others)
        arrays, metrics = self.strategy.aggregate_train(server_round, replies)
        metrics = MetricRecord() if metrics is None else metrics
        metrics["energy-j"] = float(sum(self._reports[client].cost for client in self._chosen))
        metrics["num-selected"] = len(self._chosen)
        return arrays, metrics

    def configure_evaluate(
        self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid
    ) -> Iterable[Message]:
        """The strategy's own."""
        return self.strategy.configure_evaluate(server_round, arrays, config, grid)

    def aggregate_evaluate(self, server_round: int, replies: Iterable[Message]) -> MetricRecord | None:
        """The strategy's own; the selector is told how the round went."""
        replies = list(replies)
        self._keep_reports(replies)
        accuracies = {client: report.accuracy for client, report in self._reports.items()}
        if self._learn == "accuracies":
            self.selector.report(self._trained, accuracies)
        elif self._learn == "effects":
            effects = {c: self._effect(server_round, self._without.pop(c), accuracies) for c in self._trained}
            self.selector.report(self._trained, effects=effects)
        return self.strategy.aggregate_evaluate(server_round, replies)

    def _averaged(self, server_round: int, replies: Sequence[Message]) -> ArrayRecord:
        """The model that ``replies`` make; of none, the one before the round."""
        arrays = self.strategy.aggregate_train(server_round, replies)[0] if replies else None
        return self._arrays if arrays is None else arrays

    def _effect(self, server_round: int, without: ArrayRecord, accuracies: Mapping[Any, float]) -> float:
        """Mean accuracy of the round's model minus that of ``without``, over the clients that evaluated both."""
        reports = self._parsed(self._evaluated(server_round, without))[0]
        changes = [accuracies[client] - report.accuracy for client, report in reports.items() if client in accuracies]
        return sum(changes) / max(1, len(changes))

    def _evaluated(self, server_round: int, arrays: ArrayRecord) -> Iterable[Message]:
        messages = self.strategy.configure_evaluate(server_round, arrays, ConfigRecord(), self._grid)
        return self._grid.send_and_receive(messages)

    def _keep_reports(self, replies: Iterable[Message]) -> None:
        self._reports, self._node_ids = self._parsed(replies)
        if not self._reports:
            raise ValueError("no node replied to the evaluation, so none can be selected; see the nodes' own errors")

    def _parsed(self, replies: Iterable[Message]) -> tuple[dict[Any, Report], dict[Any, int]]:
        """What each client reports, and its node."""
        reports: dict[Any, Report] = {}
        node_ids: dict[Any, int] = {}
        for reply in replies:
            if reply.has_error():
                continue
            node_id = reply.metadata.src_node_id
            metrics: Mapping[str, Any] = next(iter(reply.content.metric_records.values()), {})
            if missing := [key for key in (ACCURACY, SAMPLES, COST) if key not in metrics]:
                raise ValueError(
                    f"node {node_id} replied to the evaluation without {', '.join(missing)}; "
                    f"its MetricRecord has {', '.join(metrics) or 'nothing'}"
                )
            client = self._client_of(node_id, metrics)
            if client in reports:
                raise ValueError(f"nodes {node_ids[client]} and {node_id} both reply as {client!r}; give each its own")
            reports[client], node_ids[client] = Report(metrics[ACCURACY], metrics[SAMPLES], metrics[COST]), node_id
        return reports, node_ids
