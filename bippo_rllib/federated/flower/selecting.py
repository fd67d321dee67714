"""One round's selection, and the messages to the selected clients."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from typing import Any

from flwr.app import Message
from flwr.serverapp.strategy import Strategy

from bippo_rllib.federated.client_selector import ClientSelector
from bippo_rllib.federated.flower.limits import Limits, budget_of
from bippo_rllib.federated.flower.messages import no_client_trains, unnamed, who_trains
from bippo_rllib.federated.flower.node_reports import NodeReports
from bippo_rllib.federated.flower.running import Round

logger = logging.getLogger(__name__)


def select(selector: ClientSelector, limits: Limits, latest: NodeReports, now: Round) -> list[Any]:
    """Returns the clients that are to train, and sets what the round's records say of the selection.

    Args:
        selector: The selector.
        limits: The run's limits.
        latest: The latest evaluation.
        now: The round, with the reports of all clients that are available.
    """
    if warning := unnamed({client: latest.node_ids[client] for client in now.reports}, selector.policy_ids):
        logger.warning("%s", warning)
    try:
        budget_j = budget_of(limits.budget_j, now.number)
    except ValueError as error:
        logger.warning("%s; nothing is spent in this round", error)
        budget_j = 0.0
    now.reports = limits.candidates(now.reports, latest.metrics, now.number)
    chosen = []
    # Without reports no client is known to have left; the selector would forget the round before.
    if now.reports:
        chosen = selector.select(now.reports, budget_j)
        now.scores = selector.last_scores
        now.profiles = {client: profile for client, profile in now.profiles.items() if client not in now.reports}
    if not chosen and (reason := no_client_trains(now.reports, budget_j)):
        logger.warning("round %d trains no client: %s; the model stays as it was", now.number, reason)
    return chosen


def messages_to(
    chosen: list[Any], node_ids: Mapping[Any, int], messages: Iterable[Message], strategy: Strategy, now: Round
) -> list[Message]:
    """Returns the messages to the chosen clients, which are then the selected ones of the round.

    Args:
        chosen: The clients to train.
        node_ids: The node of each client.
        messages: The strategy's messages to all nodes.
        strategy: The strategy, which may have left out some of them.
        now: The round.
    """
    by_node = {message.metadata.dst_node_id: message for message in messages}
    now.selected = [client for client in chosen if node_ids[client] in by_node]
    if left_out := [client for client in chosen if client not in now.selected]:
        logger.warning("round %d: %s sends nothing to %s", now.number, type(strategy).__name__, left_out)
    # Beside Flower's line on the nodes that the strategy prepares messages to.
    trains = who_trains(now.selected, len(now.reports), sum(now.costs_j.values()))
    logging.getLogger("flwr").info("configure_train: %s", trains)
    return [by_node[node_ids[client]] for client in now.selected]
