"""The inner strategy's part in a round: it configures and aggregates the training, and may fail at either."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from typing import cast

from flwr.app import ArrayRecord, ConfigRecord, Message, MetricRecord
from flwr.serverapp import Grid
from flwr.serverapp.exception import PrivacyBudgetExhausted
from flwr.serverapp.strategy import Strategy

from bippo_rllib.federated.flower.inner_strategies import set_num_clients
from bippo_rllib.federated.flower.node_snapshot import NodeSnapshot

logger = logging.getLogger(__name__)


def configured(
    strategy: Strategy, server_round: int, arrays: ArrayRecord, config: ConfigRecord, nodes: NodeSnapshot
) -> Iterable[Message] | None:
    """Returns the strategy's messages for a round of all nodes; None once a privacy budget is spent."""
    set_num_clients(strategy, len(nodes.node_ids))
    try:
        return strategy.configure_train(server_round, arrays, config, cast(Grid, nodes))
    except PrivacyBudgetExhausted as error:
        logger.warning("round %d trains no client: %s", server_round, error)
        return None


def aggregated(
    strategy: Strategy, server_round: int, replies: list[Message], num_trained: int, *, may_fail: bool
) -> tuple[ArrayRecord | None, MetricRecord | None]:
    """Returns the strategy's model and metrics of a round.

    Args:
        strategy: The strategy.
        server_round: The round.
        replies: To the training; without any there is no model.
        num_trained: Clients whose training did not fail.
        may_fail: Whether an error of the strategy costs the round only, with a warning, instead of being raised.
    """
    if not replies:
        return None, None
    set_num_clients(strategy, max(1, num_trained))
    try:
        return strategy.aggregate_train(server_round, replies)
    except Exception as error:  # of what nodes reply or of a user's function
        if not may_fail:
            raise
        logger.warning("round %d is lost: %s: %s", server_round, type(error).__name__, error)
        return None, None


def evaluated(strategy: Strategy, server_round: int, replies: list[Message]) -> MetricRecord | None:
    """Returns the strategy's metrics of an evaluation; None where it fails."""
    try:
        return strategy.aggregate_evaluate(server_round, replies)
    except Exception as error:  # of what nodes reply or of a user's function
        logger.warning("round %d has no evaluation metrics: %s: %s", server_round, type(error).__name__, error)
        return None
