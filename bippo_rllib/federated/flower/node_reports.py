"""From the nodes' replies to an evaluation to what a ``ClientSelector`` selects by."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from flwr.app import Message

from bippo_rllib.federated import reports
from bippo_rllib.federated.reports import ClientReport, check_name, number_within
from bippo_rllib.policies.agents import policy_of

#: What a node puts into the MetricRecord of its reply to an evaluation. ``client-id`` may be left out, or be a name in
#: a ConfigRecord of the reply, since a MetricRecord holds numbers. ``loss`` is read for selectors that need it.
ACCURACY, SAMPLES, COST, LOSS, CLIENT = "accuracy", "num-train-examples", "cost-j", "loss", "client-id"

#: Lowest and highest value of each.
LIMITS = {ACCURACY: reports.ACCURACY, SAMPLES: reports.NUM_SAMPLES, COST: reports.COST_J, LOSS: reports.LOSS}

#: By how much an accuracy may leave [0, 1], as a mean in float32 does.
ROUNDING = 1e-6

#: Nodes that a message names before it counts the rest.
NAMED = 5


def client_of(node_id: int, metrics: Mapping[str, Any]) -> Any:
    """Returns ``client_003``, as ``envs`` names up to 1,000 clients, for ``client-id`` 3, and a name as it is.

    Args:
        node_id: Flower's id of the node, which is the client if there is no ``client-id``.
        metrics: The entries of the node's reply to an evaluation.

    Raises:
        ValueError: If ``client-id`` is neither a name nor a whole number of at least 0.
    """
    found = metrics.get(CLIENT, node_id)
    if CLIENT not in metrics or (isinstance(found, str) and found):
        return found
    if not isinstance(found, int | float) or found < 0 or found % 1 != 0:
        raise ValueError(f"{CLIENT} = {found!r}; expected a whole number of at least 0")
    return f"client_{int(found):03d}"


@dataclass
class NodeReports:
    """What the nodes replied to one evaluation.

    Attributes:
        reports: By client.
        node_ids: The node of each client.
        metrics: By client, all entries of its reply, of MetricRecords and ConfigRecords.
        refused: Problem of a node's reply, as the rest of a sentence, by node.
        errors: By node, how it failed to evaluate, as the rest of a sentence.
    """

    reports: dict[Any, ClientReport] = field(default_factory=dict)
    node_ids: dict[Any, int] = field(default_factory=dict)
    metrics: dict[Any, Mapping[str, Any]] = field(default_factory=dict)
    refused: dict[int, str] = field(default_factory=dict)
    errors: dict[int, str] = field(default_factory=dict)

    @classmethod
    def of(
        cls,
        replies: Iterable[Message],
        client_of: Callable[[int, Mapping[str, Any]], Any],
        known: Mapping[Any, int],
        *,
        needs_loss: bool = False,
    ) -> NodeReports:
        """Reads the replies; one that cannot be used costs the other nodes nothing.

        Args:
            replies: To an evaluation, of one node each.
            client_of: Node id and metrics -> client.
            known: The node of each client so far. Of two nodes that reply as one client, the known one is believed.
            needs_loss: Whether a reply without a ``loss`` cannot be used.
        """
        keys = [key for key in LIMITS if key != LOSS or needs_loss]
        result = cls()
        by_policy: dict[str, list[tuple[Any, ClientReport, int]]] = {}
        metrics: dict[int, Mapping[str, Any]] = {}
        for reply in replies:
            node_id = reply.metadata.src_node_id
            if reply.has_error():
                result.errors[node_id] = f"failed: {_last_line(reply.error.reason) or reply.error.code}"
                continue
            metrics[node_id] = _entries(reply)
            try:
                client, report = _read(node_id, metrics[node_id], client_of, keys)
                by_policy.setdefault(policy_of(client), []).append((client, report, node_id))
            except ValueError as error:
                result.refused[node_id] = str(error)
        nodes_known = {policy_of(client): node_id for client, node_id in known.items()}
        for policy_id, claims in by_policy.items():
            result._settle(claims, nodes_known.get(policy_id))
        result.metrics = {client: metrics[node_id] for client, node_id in result.node_ids.items()}
        return result

    def _settle(self, claims: Sequence[tuple[Any, ClientReport, int]], known: int | None) -> None:
        """Takes the one node that replies as a client; where there are several, the known one."""
        nodes = sorted(node_id for _, _, node_id in claims)
        for client, report, node_id in claims:
            if len(nodes) == 1 or node_id == known:
                self.reports[client], self.node_ids[client] = report, node_id
            else:
                other = next(other for other in nodes if other != node_id)
                self.refused[node_id] = f"replies as {client!r}, as node {other} does; give each another"

    def refusals(self) -> str:
        """Returns in one line which nodes' replies cannot be used, and why."""
        return _listed(self.refused)

    def failures(self) -> str:
        """Returns in one line which nodes did not evaluate, and why."""
        return _listed(self.errors)


def _last_line(reason: str | None) -> str:
    """Returns the error of a traceback, such as Flower's simulation sends, at most 300 characters of it."""
    return (reason or "").strip().rpartition("\n")[2].strip()[-300:]


def _entries(reply: Message) -> Mapping[str, Any]:
    """Returns all entries of a reply's MetricRecord, and of its ConfigRecords, whose values may be texts."""
    entries: dict[str, Any] = {}
    for config in reply.content.config_records.values():
        entries |= config
    return entries | dict(next(iter(reply.content.metric_records.values()), {}))


def _read(
    node_id: int,
    metrics: Mapping[str, Any],
    client_of: Callable[[int, Mapping[str, Any]], Any],
    keys: Sequence[str],
) -> tuple[Hashable, ClientReport]:
    """Returns the client and its report; raises a ValueError, without the node's name, for a bad reply."""
    if missing := [key for key in keys if key not in metrics]:
        raise ValueError(
            f"replied without {', '.join(missing)}; its MetricRecord has {', '.join(metrics) or 'nothing'}"
        )
    try:
        client = client_of(node_id, metrics)
        hash(client)
        check_name(client)
    except Exception as error:  # of a user's function, whichever it is
        kind = "" if isinstance(error, ValueError) else f"{type(error).__name__}: "
        raise ValueError(f"has no client: {kind}{error}") from error
    found = {key: _number(metrics[key], key) for key in keys}
    report = ClientReport(
        accuracy=found[ACCURACY], num_samples=int(found[SAMPLES]), cost_j=found[COST], loss=found.get(LOSS)
    )
    return client, report


def _number(value: Any, key: str) -> float:
    """Returns a number of a reply; raises a ValueError, without the node's name, if it is out of range."""
    if key == ACCURACY and isinstance(value, int | float) and -ROUNDING <= value <= 1.0 + ROUNDING:
        value = min(1.0, max(0.0, value))
    return number_within(value, key, LIMITS[key])


def _listed(reasons: Mapping[int, str]) -> str:
    named = [f"node {node_id} {reasons[node_id]}" for node_id in sorted(reasons)[:NAMED]]
    more = len(reasons) - len(named)
    return "; ".join(named) + (f"; and {more} more" if more else "")
