"""Test sets where the test split has fewer samples of a class than the clients together would take."""

from __future__ import annotations

import numpy as np

from envs.checks import Shortage
from envs.data.class_counts import in_proportion


def fit_to_split(wanted: np.ndarray, held: np.ndarray, available: np.ndarray) -> np.ndarray:
    """Scales down what the clients take of each class that the split has too little of.

    Such a class is divided in proportion to ``wanted``, a sample for each client that wants some where there are as
    many. Where that leaves a client without any sample, every client first gets one of a label that it holds.

    Args:
        wanted: ``int64[num_clients, num_classes]``, at least one sample for each client.
        held: ``bool[num_clients, num_classes]`` labels the clients hold.
        available: ``int64[num_classes]`` samples of the split.

    Returns:
        ``int64[num_clients, num_classes]``: ``wanted`` where there is enough, no more than it for any client, and a
        sample for each.

    Raises:
        ValueError: If the split has no sample of a class that is wanted, or not one for every client.
    """
    missing = np.flatnonzero(wanted.any(axis=0) & (available == 0))
    if missing.size:
        raise Shortage(
            f"class {missing[0]}: the clients want {wanted[:, missing[0]].sum()} test samples, the test split has 0; "
            "use other data",
            ("test",),
        )
    counts = _scaled(wanted, available)
    if counts.any(axis=1).all():
        return counts
    first = _one_each(held, available)
    return first + _scaled(_less_first(wanted, first), available - first.sum(axis=0))


def _scaled(wanted: np.ndarray, available: np.ndarray) -> np.ndarray:
    counts = wanted.copy()
    for label in np.flatnonzero(wanted.sum(axis=0) > available):
        counts[:, label] = in_proportion(wanted[:, label], int(available[label]))
    return counts


def _one_each(held: np.ndarray, available: np.ndarray) -> np.ndarray:
    """``int64[num_clients, num_classes]``, one sample for each client: a flow from clients to the classes they hold."""
    from scipy.sparse import csr_array  # only here, as it takes long to import
    from scipy.sparse.csgraph import maximum_flow

    num_clients, num_classes = held.shape
    clients, labels = np.nonzero(held)
    source, sink, first_class = 0, num_clients + num_classes + 1, num_clients + 1
    tails = np.concatenate([np.full(num_clients, source), 1 + clients, first_class + np.arange(num_classes)])
    heads = np.concatenate([1 + np.arange(num_clients), first_class + labels, np.full(num_classes, sink)])
    capacities = np.concatenate([np.ones(num_clients + len(clients)), np.minimum(available, num_clients)])
    graph = csr_array((capacities.astype(np.int32), (tails, heads)), shape=(sink + 1, sink + 1))
    flow = maximum_flow(graph, source, sink)
    if flow.flow_value < num_clients:
        raise Shortage(
            f"{num_clients - flow.flow_value} of {num_clients} clients have no test sample, as the test split has too "
            "few of the labels they hold; lower num_clients or use other data",
            ("test",),
        )
    return flow.flow[1:first_class, first_class:sink].toarray().astype(np.int64)


def _less_first(wanted: np.ndarray, first: np.ndarray) -> np.ndarray:
    """What clients want beside their first sample; one of a label not wanted takes the place of one that is."""
    rest = wanted - first
    for client, label in np.argwhere(rest < 0):
        rest[client, label] = 0
        rest[client, rest[client].argmax()] -= 1
    return rest
