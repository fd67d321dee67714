"""Flower apps in this process: every node is a call of the client app, with a state of its own."""

from __future__ import annotations

from typing import Any

from flwr.app import Context, RecordDict
from flwr.clientapp import ClientApp


class InProcessGrid:
    """A grid of nodes with the ids 100, 101, ...

    Args:
        client_app: What a node runs.
        num_nodes: How many there are.
        run_config: What ``flwr run --run-config`` sets.
    """

    def __init__(self, client_app: ClientApp, num_nodes: int, run_config: dict[str, Any]) -> None:
        self._app = client_app
        self._contexts = {
            100 + number: Context(1, 100 + number, {"partition-id": number}, RecordDict(), run_config)
            for number in range(num_nodes)
        }

    def get_node_ids(self):
        return list(self._contexts)

    def send_and_receive(self, messages, timeout=None):
        return [self._app(message, self._contexts[message.metadata.dst_node_id]) for message in messages]


def server_context(run_config: dict[str, Any]) -> Context:
    """Returns what a server app is called with."""
    return Context(1, 1, {}, RecordDict(), run_config)
