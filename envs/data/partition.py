"""Who holds which samples. NumPy only.

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

from envs.data.dirichlet import counts_over_clients, counts_over_labels
from envs.data.label_noise import noisy_labels
from envs.data.label_sets import paper_label_sets
from envs.rng import keyed_rng

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
        """Deals the samples of ``dataset`` as ``config`` says; ``seed`` takes the place of the configuration's own.

        Raises:
            ValueError: If a split does not hold what is wanted.
        """
        true_labels, num_classes = dataset.train_labels.numpy(), len(dataset.classes)
        dealt = make_partition(
            config.partition,
            true_labels,
            dataset.test_labels.numpy(),
            num_classes,
            config.train_sizes,
            config.test_sizes,
            alpha=config.alpha,
            late_labels=config.late_labels,
            seed=seed,
        )
        noisy = {
            client: noisy_labels(true_labels[dealt.train[client]], config.label_noise, num_classes, seed, client)
            for client in config.noisy_clients
        }
        return dataclasses.replace(dealt, noisy_labels=noisy)

    def label_counts(self, dataset: Dataset) -> np.ndarray:
        """``int64[num_clients, num_classes]`` training samples of each class, by the labels that clients have."""
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
    late_labels: Sequence[int] = (),
    seed: int = 0,
) -> Partition:
    """Deals training and test samples to clients.

    A client's test set holds its own labels in equal parts, whatever the mix it trains on.

    Args:
        kind: ``paper``, ``dirichlet_over_clients`` or ``dirichlet_over_labels``.
        train_labels: ``[num_train]`` labels of the training split, 0 to ``num_classes - 1``.
        test_labels: ``[num_test]`` labels of the test split.
        num_classes: Classes, at least 3 for ``paper``.
        train_sizes: ``[num_clients]`` training samples wanted.
        test_sizes: ``[num_clients]`` test samples wanted.
        alpha: Concentration of the Dirichlet partitions.
        late_labels: With ``paper``, labels of each of the last clients, see ``paper_label_sets``.
        seed: Changes which samples are drawn and nothing else.

    Raises:
        ValueError: If a split does not hold what is wanted; the message has the class and both numbers.
    """
    for what, sizes, labels in (("train", train_sizes, train_labels), ("test", test_sizes, test_labels)):
        if sum(sizes) > len(labels):
            raise ValueError(
                f"the clients want {sum(sizes)} {what} samples, the {what} split has {len(labels)}; lower "
                f"{what}_samples or num_clients"
            )
    train_available = np.bincount(train_labels, minlength=num_classes)
    test_available = np.bincount(test_labels, minlength=num_classes)
    if kind == "paper":
        label_sets = paper_label_sets(train_sizes, test_sizes, train_available, test_available, late_labels)
        train_counts = equal_counts(label_sets, train_sizes, num_classes)
    elif kind == "dirichlet_over_clients":
        train_counts = counts_over_clients(train_sizes, train_available, alpha)
    else:
        train_counts = counts_over_labels(train_sizes, train_available, alpha)
    held = tuple(tuple(np.flatnonzero(row).tolist()) for row in train_counts)
    test_counts = equal_counts(held, test_sizes, num_classes)
    return Partition(
        train=_deal(train_counts, train_labels, train_available, "train", seed),
        test=_deal(test_counts, test_labels, test_available, "test", seed),
        labels=held,
    )


def equal_counts(label_sets: Sequence[Sequence[int]], sizes: Sequence[int], num_classes: int) -> np.ndarray:
    """``int64[num_clients, num_classes]`` samples, equal over each client's labels up to one.

    What does not divide goes to labels in turn, starting from another one for each client.
    """
    counts = np.zeros((len(sizes), num_classes), dtype=np.int64)
    for client, (labels, size) in enumerate(zip(label_sets, sizes, strict=True)):
        share, rest = divmod(size, len(labels))
        for place, label in enumerate(labels):
            counts[client, label] = share + ((place - client) % len(labels) < rest)
    return counts


def _deal(
    counts: np.ndarray, labels: np.ndarray, available: np.ndarray, split: str, seed: int
) -> tuple[np.ndarray, ...]:
    """Draws ``counts[client, class]`` samples for every client, none twice."""
    wanted = counts.sum(axis=0)
    if (wanted > available).any():
        label = int(np.argmax(wanted / np.maximum(available, 0.5)))
        share = max(1, 100 * int(available[label]) // int(wanted[label]))
        fix = f"lower {split}_samples or num_clients to some {share} %" if available[label] else "use other data"
        raise ValueError(
            f"class {label}: the clients want {wanted[label]} {split} samples, the {split} split has "
            f"{available[label]}; {fix}"
        )
    hands: list[list[np.ndarray]] = [[] for _ in counts]
    for label in range(counts.shape[1]):
        deck = keyed_rng(f"partition {split}", seed, label).permutation(np.flatnonzero(labels == label))
        for hand, piece in zip(hands, np.split(deck, np.cumsum(counts[:, label])), strict=False):
            hand.append(piece)
    return tuple(np.sort(np.concatenate(hand)) for hand in hands)
