"""Partitions: which client holds which samples. NumPy, and SciPy where a test split is short of a class.

Label sets, label mixes, sizes and who has noisy labels are constants of the scenario; the seed only changes which
samples and which wrong labels are drawn. So the clients' data sizes, costs and the budget are the same for all seeds.
No index is ever used twice.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from envs.checks import Shortage
from envs.data.class_counts import counts_in_mix, equal_counts
from envs.data.dirichlet import counts_over_clients, counts_over_labels
from envs.data.given_partition import as_given, by_user
from envs.data.label_noise import noisy_labels
from envs.data.label_sets import paper_label_sets
from envs.data.mcmahan import counts_of_shards, iid_counts
from envs.data.scarce_classes import fit_to_split
from envs.imports import is_import
from envs.rng import keyed_rng
from envs.settings.data import BY_USER

if TYPE_CHECKING:
    from envs.config import FederationConfig
    from envs.data.datasets import Dataset


@dataclass(frozen=True)
class Partition:
    """Sample indices of each client."""

    train: tuple[np.ndarray, ...]  #: Per client an ascending ``int64`` array of indices into the training split.
    test: tuple[np.ndarray, ...]  #: The same for the test split.
    labels: tuple[tuple[int, ...], ...]  #: Per client the labels it holds, ascending.
    #: Training labels of the clients that have wrong ones, in the order of ``train``, by client.
    noisy_labels: Mapping[int, np.ndarray] = field(default_factory=dict)

    @classmethod
    def of(cls, config: FederationConfig, dataset: Dataset, seed: int) -> Partition:
        """Assigns the samples of ``dataset`` as ``config`` says; ``seed`` takes the place of the configuration's own.

        Raises:
            ValueError: If a split does not hold what is wanted.
        """
        true_labels, num_classes = dataset.train_labels.numpy(), len(dataset.classes)
        partition = cls._given(config, dataset, seed) or make_partition(
            config.partition,
            true_labels,
            dataset.test_labels.numpy(),
            num_classes,
            config.train_sizes,
            config.test_sizes,
            alpha=config.dirichlet_alpha,
            shards_per_client=config.client_shards,
            late_labels=config.late_labels,
            seed=seed,
        )
        noisy = {
            client: noisy_labels(true_labels[partition.train[client]], config.label_noise, num_classes, seed, client)
            for client in config.noisy_clients
        }
        return dataclasses.replace(partition, noisy_labels=noisy)

    @classmethod
    def _given(cls, config: FederationConfig, dataset: Dataset, seed: int) -> Partition | None:
        """One by user or by a user's function; None if labels and sizes decide."""
        if config.partition == BY_USER:
            train, test = by_user(dataset, config.num_clients)
        elif is_import(config.partition):
            train, test = as_given(config.partition, dataset, config.num_clients, seed)
        else:
            return None
        labels = dataset.train_labels.numpy()
        return cls(train, test, tuple(tuple(np.unique(labels[indices]).tolist()) for indices in train))

    def check_sizes(self, num_samples: np.ndarray) -> None:
        """Refuses other sizes than ``num_samples``, as a user's function may give them for another seed."""
        found = [len(indices) for indices in self.train]
        if found != num_samples.tolist():
            raise ValueError(
                f"partition gives the clients {found} training samples for this seed and {num_samples.tolist()} for "
                "another; only which samples they hold may depend on the seed"
            )

    def label_counts(self, dataset: Dataset) -> np.ndarray:
        """Returns ``int64[num_clients, num_classes]`` training samples of each class, by the clients' labels."""
        true_labels, num_classes = dataset.train_labels.numpy(), len(dataset.classes)
        held = (self.noisy_labels.get(client, true_labels[indices]) for client, indices in enumerate(self.train))
        return np.stack([np.bincount(labels, minlength=num_classes) for labels in held])


def make_partition(
    kind: str,
    train_labels: np.ndarray,
    test_labels: np.ndarray,
    num_classes: int,
    train_sizes: Sequence[int],
    test_sizes: Sequence[int],
    *,
    alpha: float = 0.5,
    shards_per_client: int = 2,
    late_labels: Sequence[int] = (),
    seed: int = 0,
) -> Partition:
    """Assigns training and test samples to clients.

    A client's test set holds its own labels: with ``shards`` and ``iid`` in the mix that it trains on, else in equal
    parts, whatever that mix is. It is smaller than requested where the test split has too little of a class for all
    clients (``envs.data.scarce_classes``).

    Args:
        kind: ``paper``, ``dirichlet_over_clients``, ``dirichlet_over_labels``, ``shards`` or ``iid``.
        train_labels: ``[num_train]`` labels of the training split, 0 to ``num_classes - 1``.
        test_labels: ``[num_test]`` labels of the test split.
        num_classes: Classes, at least 3 for ``paper``.
        train_sizes: ``[num_clients]`` training samples wanted.
        test_sizes: ``[num_clients]`` test samples wanted.
        alpha: Concentration of the Dirichlet partitions.
        shards_per_client: Shards of each client with ``shards``.
        late_labels: With ``paper``, labels of each of the last clients, see ``paper_label_sets``.
        seed: Changes which samples are drawn and nothing else.

    Raises:
        ValueError: If a split does not hold what is wanted; the message has the class and both numbers.
    """
    _check_sums(train=(train_sizes, train_labels), test=(test_sizes, test_labels))
    in_train, in_test = (np.bincount(labels, minlength=num_classes) for labels in (train_labels, test_labels))
    if kind == "paper":
        label_sets = paper_label_sets(train_sizes, test_sizes, in_train, in_test, late_labels)
        train_counts = _checked(equal_counts(label_sets, train_sizes, num_classes), in_train)
    else:
        train_counts = _counts(kind, train_sizes, in_train, alpha, shards_per_client)
    held = tuple(tuple(np.flatnonzero(row).tolist()) for row in train_counts)
    follows_mix = kind in ("shards", "iid")
    wanted = counts_in_mix(train_counts, test_sizes) if follows_mix else equal_counts(held, test_sizes, num_classes)
    return Partition(
        train=_drawn(train_counts, train_labels, "train", seed),
        test=_drawn(fit_to_split(wanted, train_counts > 0, in_test), test_labels, "test", seed),
        labels=held,
    )


def _check_sums(**splits: tuple[Sequence[int], np.ndarray]) -> None:
    """Names every split that is too small."""
    missing = {
        split: f"the clients want {sum(sizes)} {split} samples, the {split} split has {len(labels)}; lower "
        f"{split}_samples or num_clients"
        for split, (sizes, labels) in splits.items()
        if sum(sizes) > len(labels)
    }
    if missing:
        raise Shortage("; ".join(missing.values()), missing)


def _counts(kind: str, sizes: Sequence[int], available: np.ndarray, alpha: float, shards_per_client: int) -> np.ndarray:
    """``int64[num_clients, num_classes]`` training samples, of no class more than there are."""
    if kind == "dirichlet_over_clients":
        return counts_over_clients(sizes, available, alpha)
    if kind == "dirichlet_over_labels":
        return counts_over_labels(sizes, available, alpha)
    return counts_of_shards(sizes, available, shards_per_client) if kind == "shards" else iid_counts(sizes, available)


def _checked(counts: np.ndarray, available: np.ndarray) -> np.ndarray:
    """``counts``, or an error that names the training samples of a class that are missing."""
    wanted = counts.sum(axis=0)
    if (wanted > available).any():
        label = int(np.argmax(wanted / np.maximum(available, 0.5)))
        share = max(1, 100 * int(available[label]) // int(wanted[label]))
        fix = f"lower train_samples or num_clients to some {share} %" if available[label] else "use other data"
        raise Shortage(
            f"class {label}: the clients want {wanted[label]} train samples, the train split has {available[label]}; "
            f"{fix}",
            ("train",),
        )
    return counts


def _drawn(counts: np.ndarray, labels: np.ndarray, split: str, seed: int) -> tuple[np.ndarray, ...]:
    """Draws ``counts[client, class]`` samples for every client, none twice."""
    drawn: list[list[np.ndarray]] = [[] for _ in counts]
    for label in range(counts.shape[1]):
        shuffled = keyed_rng(f"partition {split}", seed, label).permutation(np.flatnonzero(labels == label))
        for own, samples in zip(drawn, np.split(shuffled, np.cumsum(counts[:, label])), strict=False):
            own.append(samples)
    return tuple(np.sort(np.concatenate(own)) for own in drawn)
