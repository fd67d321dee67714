"""The evaluations of one run: their configuration, and the latest reports of nodes."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import replace
from typing import Any, cast

import numpy as np
from flwr.app import ArrayRecord, ConfigRecord, Message
from flwr.serverapp import Grid
from flwr.serverapp.strategy import Strategy

from bippo_rllib.federated.flower.node_reports import NodeReports
from bippo_rllib.federated.flower.node_snapshot import NodeSnapshot
from bippo_rllib.federated.reports import ClientReport
from bippo_rllib.policies.agents import policy_of

logger = logging.getLogger(__name__)


class Evaluations:
    """Has models evaluated by all nodes, and keeps what the clients reported last.

    Args:
        strategy: What configures evaluations.
        client_of: Node id and metrics -> client.
        grid: The nodes.
        timeout: Seconds to wait for replies; None for no limit.
        config: What every evaluation is sent.
        needs_loss: Whether clients have to report a loss.

    Attributes:
        strategy: What configures evaluations.
        latest: The latest usable evaluation.
    """

    def __init__(
        self,
        strategy: Strategy,
        client_of: Callable[[int, Mapping[str, Any]], Any],
        grid: Grid,
        timeout: float | None,
        config: ConfigRecord,
        *,
        needs_loss: bool = False,
    ) -> None:
        self.strategy, self._client_of = strategy, client_of
        self._grid, self._timeout, self._config = grid, timeout, config
        self._needs_loss = needs_loss
        self.latest = NodeReports()

    def evaluate(self, server_round: int, arrays: ArrayRecord) -> NodeReports:
        """Returns what the nodes report of a model."""
        # Strategies write into the config and look twice at the nodes.
        nodes = cast(Grid, NodeSnapshot(self._grid))
        messages = self.strategy.configure_evaluate(server_round, arrays, self._config.copy(), nodes)
        return self.read(self._grid.send_and_receive(messages, timeout=self._timeout))

    def read(self, replies: Iterable[Message]) -> NodeReports:
        """Returns the reports in the replies to an evaluation."""
        return NodeReports.of(replies, self._client_of, self.latest.node_ids, needs_loss=self._needs_loss)

    def keep(self, server_round: int, evaluation: NodeReports) -> None:
        """Takes the evaluation after a round as the latest, unless it has no reports; warns of what cannot be used."""
        if evaluation.refused:
            logger.warning("not available in round %d: %s", server_round + 1, evaluation.refusals())
        if evaluation.reports:
            self.latest = evaluation
        else:
            why = evaluation.failures() or evaluation.refusals() or "no node replied"
            logger.warning("no evaluation after round %d can be used (%s); earlier ones count", server_round, why)

    def available(
        self, node_ids: Collection[int], trained: Collection[Any] | None, profiles: Mapping[Any, np.ndarray]
    ) -> dict[Any, ClientReport]:
        """Returns the latest reports of the clients on these nodes.

        Args:
            node_ids: The nodes that are online.
            trained: Clients that trained in the latest round; None to use what the selector recorded.
            profiles: Update profiles that the selector has not seen, by client.
        """
        online = set(node_ids)
        flags = None if trained is None else {policy_of(client) for client in trained}
        return {
            client: replace(
                report,
                trained=None if flags is None else policy_of(client) in flags,
                update_profile=profiles.get(client),
            )
            for client, report in self.latest.reports.items()
            if self.latest.node_ids[client] in online
        }
