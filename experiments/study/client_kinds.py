"""Kinds of clients, by what differs among the clients of a federation."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING

from experiments.results.naming import pluralize

if TYPE_CHECKING:
    from envs import FederatedRounds

#: Most different numbers of labels, or CPU frequencies, that get a curve each.
MOST_VALUES = 6
NOISY = "noisy"


def kinds_of(env: FederatedRounds) -> dict[str, frozenset[int]]:
    """Returns the clients of each kind, by their frequencies at the start; see ``client_kinds``."""
    config = env.config
    return client_kinds([len(labels) for labels in env.labels], config.start_freq_hz, config.mislabelled_clients)


def client_kinds(
    num_labels: Sequence[int], cpu_freq_hz: Sequence[float], noisy: Collection[int] = ()
) -> dict[str, frozenset[int]]:
    """Groups clients by number of labels and CPU frequency, and those with wrong labels also as ``noisy``.

    Args:
        num_labels: Of each client.
        cpu_freq_hz: Of each client.
        noisy: Clients with wrong labels.

    Returns:
        Clients by the name of their kind, such as ``3_labels_700_MHz``. A property that is the same for all clients,
        or has more than a few values, is in no name.
    """
    labels = _unless_mixed([pluralize(number, "label").replace(" ", "_") for number in num_labels])
    speeds = _unless_mixed([f"{freq / 1e6:.0f}_MHz" for freq in cpu_freq_hz])
    names = ["_".join(filter(None, parts)) for parts in zip(labels, speeds, strict=True)]
    kinds = {
        name: frozenset(i for i, other in enumerate(names) if other == name) for name in sorted(set(names)) if name
    }
    return {**kinds, **({NOISY: frozenset(noisy)} if noisy else {})}


def _unless_mixed(names: Sequence[str]) -> Sequence[str]:
    return names if 1 < len(set(names)) <= MOST_VALUES else [""] * len(names)
