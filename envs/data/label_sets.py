"""Which labels each client holds in the paper's partition: constants of a scenario. NumPy only."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from envs.checks import SettingError

#: Labels a client of each quarter holds in the paper's partition; None for all.
PAPER_KINDS = (None, 3, 2, 1)


def paper_label_sets(
    train_sizes: Sequence[int],
    test_sizes: Sequence[int],
    train_available: np.ndarray,
    test_available: np.ndarray,
    late_labels: Sequence[int] = (),
) -> tuple[tuple[int, ...], ...]:
    """Assigns all labels to each client of the first quarter, and three, two and one to those of the next.

    Labels are assigned greedily, first to clients with all labels, then few labels and much data first, each taking
    the classes that would be least used up in either split. So all classes are used about equally. Where that leaves
    a class overfull, labels are exchanged between clients until it no longer is, or no exchange helps.

    Args:
        train_sizes: ``[num_clients]`` training samples.
        test_sizes: ``[num_clients]`` test samples.
        train_available: ``[num_classes]`` samples of each class in the training split.
        test_available: ``[num_classes]`` samples of each class in the test split.
        late_labels: How many labels each of the last clients holds. They are in no quarter and are served last, so
            that all others hold what they hold without them.

    Returns:
        Per client its labels, ascending.

    Raises:
        ValueError: If there are fewer than 3 classes, or fewer than a late client is to hold.
    """
    num_clients, num_classes = len(train_sizes), len(train_available)
    if num_classes < 3:
        raise ValueError(
            f"the data set has {num_classes} classes; the paper's partition needs at least 3, "
            "partition='dirichlet_over_labels' takes fewer"
        )
    if max(late_labels, default=0) > num_classes:
        raise SettingError("late_labels", tuple(late_labels), f"the data set has {num_classes} classes")
    early = num_clients - len(late_labels)
    kinds = np.array([PAPER_KINDS[4 * client // early] or num_classes for client in range(early)] + [*late_labels])
    available = np.maximum(np.stack([train_available, test_available]), 1e-9)
    # [2, num_clients, num_classes]: the part of a class, in either split, that one of a client's labels uses up.
    parts = (np.stack([train_sizes, test_sizes]) / kinds)[:, :, None] / available[:, None, :]
    sizes, holds = np.asarray(train_sizes), np.zeros((num_clients, num_classes), dtype=bool)
    holds[:early] = _greedy(kinds[:early], sizes[:early], parts[:, :early], used=np.zeros((2, num_classes)))
    _repair(holds[:early], parts[:, :early])
    used = (parts * holds).sum(axis=1)
    holds[early:] = _greedy(kinds[early:], sizes[early:], parts[:, early:], used)
    return tuple(tuple(np.flatnonzero(row).tolist()) for row in holds)


def _greedy(kinds: np.ndarray, train_sizes: np.ndarray, parts: np.ndarray, used: np.ndarray) -> np.ndarray:
    """``used`` is ``[2, num_classes]``, what others use up already."""
    num_clients, num_classes = parts.shape[1:]
    holds = np.zeros((num_clients, num_classes), dtype=bool)
    used = used.copy()
    for client in np.lexsort((np.arange(num_clients), -train_sizes, kinds, kinds < num_classes)):
        fullest = (used + parts[:, client]).max(axis=0)
        chosen = np.argsort(fullest, kind="stable")[: kinds[client]]
        holds[client, chosen] = True
        used[:, chosen] += parts[:, client, chosen]
    return holds


def _repair(holds: np.ndarray, parts: np.ndarray) -> None:
    """Exchanges labels in place while a class is overfull; each exchange lowers the sum of squared use."""
    while True:
        used = (parts * holds).sum(axis=1)
        overfull = np.flatnonzero((used > 1.0).any(axis=0)).tolist()
        exchanges = [
            _best_exchange(holds, parts, used, full, other)
            for full in overfull
            for other in range(holds.shape[1])
            if other != full
        ]
        gain, giver, taker, full, other = min(exchanges, default=(0.0, 0, 0, 0, 0))
        if gain > -1e-9:
            return
        holds[giver, [full, other]] = False, True
        if taker >= 0:
            holds[taker, [full, other]] = True, False


def _best_exchange(
    holds: np.ndarray, parts: np.ndarray, used: np.ndarray, full: int, other: int
) -> tuple[float, int, int, int, int]:
    """The best way to give ``full`` away for ``other``: to a client that does the opposite, or to none (-1)."""
    givers = np.flatnonzero(holds[:, full] & ~holds[:, other])
    takers = np.flatnonzero(holds[:, other] & ~holds[:, full])
    if givers.size == 0:
        return 0.0, 0, -1, full, other
    change = np.zeros((givers.size, takers.size + 1))
    for label, sign in ((full, 1.0), (other, -1.0)):
        given = parts[:, givers, label][:, :, None]
        taken = np.pad(parts[:, takers, label], ((0, 0), (0, 1)))[:, None, :]
        change += ((used[:, label, None, None] + sign * (taken - given)) ** 2).sum(axis=0)
    change -= (used[:, [full, other]] ** 2).sum()
    giver, taker = np.unravel_index(np.argmin(change), change.shape)
    taken_by = int(takers[taker]) if taker < takers.size else -1
    return float(change[giver, taker]), int(givers[giver]), taken_by, full, other
