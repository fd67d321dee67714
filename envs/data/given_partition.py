"""Partitions that do not go by labels: by user, or as a user's own function says."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from envs.checks import SettingError, Shortage
from envs.imports import import_function, own_code

if TYPE_CHECKING:
    from envs.data.datasets import Dataset

Indices = tuple[np.ndarray, ...]


def by_user(dataset: Dataset, num_clients: int) -> tuple[Indices, Indices]:
    """Returns the training and test indices of the first ``num_clients`` users, by ascending user number.

    Raises:
        ValueError: If users are unknown, fewer than the clients, or without samples in one of the splits.
    """
    if dataset.train_users is None or dataset.test_users is None:
        missing = f"dataset {dataset.name} has no train_users and test_users; give its Dataset both, or choose another"
        raise SettingError("partition", "natural", missing)
    train, test = dataset.train_users.numpy(), dataset.test_users.numpy()
    users = np.unique(train)
    if len(users) < num_clients:
        raise Shortage(f"num_clients is {num_clients}, but {len(users)} users have training samples; lower it")
    in_train, in_test = (
        tuple(np.flatnonzero(split == user) for user in users[:num_clients]) for split in (train, test)
    )
    without = [int(user) for user, indices in zip(users, in_test, strict=False) if not len(indices)]
    if without:
        raise ValueError(f"user {without[0]} has no test samples; give each of the first {num_clients} users some")
    return in_train, in_test


def as_given(name: str, dataset: Dataset, num_clients: int, seed: int) -> tuple[Indices, Indices]:
    """Returns the training and test indices that a user's function assigns to the clients, ascending.

    Args:
        name: ``MODULE:NAME``.
        dataset: The data set.
        num_clients: Clients.
        seed: May change which samples a client holds, not how many.

    Raises:
        ValueError: If what it returns is no partition; the message says why.
    """
    split = import_function("partition", name)
    with own_code(f"partition {name}"):
        result = split(dataset, num_clients, seed)
    if not isinstance(result, tuple) or len(result) != 2:
        raise ValueError(f"partition {name} returned a {type(result).__name__}; it must return (train, test)")
    train = _checked(name, "train", result[0], num_clients, len(dataset.train_labels))
    return train, _checked(name, "test", result[1], num_clients, len(dataset.test_labels))


def _checked(name: str, split: str, assigned: Sequence[Any], num_clients: int, available: int) -> Indices:
    with own_code(f"partition {name}, {split} indices"):
        arrays = [np.sort(np.asarray(indices)) for indices in assigned]
    if len(arrays) != num_clients:
        raise ValueError(
            f"partition {name} assigns {split} samples to {len(arrays)} clients; num_clients={num_clients}"
        )
    for client, indices in enumerate(arrays):
        if indices.ndim != 1 or not len(indices) or not np.issubdtype(indices.dtype, np.integer):
            raise ValueError(
                f"partition {name}: {split} samples of client {client} are {indices.dtype}{list(indices.shape)}; "
                "expected one or more indices"
            )
    every = np.concatenate(arrays)
    if every.min() < 0 or every.max() >= available:
        raise ValueError(f"partition {name}: {split} indices must lie between 0 and {available - 1}")
    if len(np.unique(every)) < len(every):
        raise ValueError(f"partition {name} assigns a {split} sample twice; each belongs to one client at most")
    return tuple(indices.astype(np.int64) for indices in arrays)
