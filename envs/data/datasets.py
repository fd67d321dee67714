"""Image classification data sets as tensors: loaded once per process, never downloaded."""

from __future__ import annotations

import os
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from envs.data.image_folders import image_folder, read_image_folder
from envs.data.readers import Split, cifar_source, idx_folder, read_cifar_split, read_idx_split
from envs.imports import import_name, is_import

FASHION_CLASSES = ("t-shirt", "trouser", "pullover", "dress", "coat", "sandal", "shirt", "sneaker", "bag", "ankle-boot")
CIFAR10_CLASSES = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")

_POINT = "Point data_dir or $BIPPO_DATA to"
_FOLDERS = "train/<class>/* and test/<class>/*, zipped or not"
_DOWNLOAD = "what `python -c \"import torchvision; torchvision.datasets.{}('data', download=True)\"` downloads"
_HELP = {
    "fashion_mnist": (
        f"{_POINT} (1) {_DOWNLOAD.format('FashionMNIST')}, (2) the four original *-ubyte.gz files (`apt-get install "
        "dataset-fashion-mnist` puts them into /usr/share/datasets/fashion-mnist), or (3) folders of images "
        f"{_FOLDERS}"
    ),
    "cifar10": (
        f"{_POINT} (1) {_DOWNLOAD.format('CIFAR10')}, (2) the original cifar-10-python.tar.gz, or (3) folders of "
        f"images {_FOLDERS}"
    ),
    "image_folder": f"{_POINT} a folder with {_FOLDERS}",
}


@dataclass(frozen=True)
class Dataset:
    """A training and a test split.

    Attributes:
        name: The data set's name.
        train_images: ``uint8[num_train, channels, height, width]``.
        train_labels: ``int64[num_train]``.
        test_images: ``uint8[num_test, channels, height, width]``.
        test_labels: ``int64[num_test]``.
        classes: Names of the labels.
        max_value: The largest value a pixel can take.
    """

    name: str
    train_images: Tensor
    train_labels: Tensor
    test_images: Tensor
    test_labels: Tensor
    classes: tuple[str, ...]
    max_value: int = 255

    @property
    def input_shape(self) -> tuple[int, int, int]:
        """(channels, height, width) of an image."""
        channels, height, width = self.train_images.shape[1:]
        return channels, height, width


def load_dataset(name: str, data_dir: str | os.PathLike[str] | None = None) -> Dataset:
    """Loads a data set; the second call in a process is free.

    Args:
        name: ``digits``, ``fashion_mnist``, ``cifar10``, ``image_folder`` or ``mypackage:load``, a function of one
            path (None if there is none) that returns a ``Dataset``.
        data_dir: Where it lies; ``$BIPPO_DATA`` is looked into next.

    Raises:
        ValueError: If the name is unknown, the data is not there, or a file is corrupt; one line that names it.
    """
    roots = [root for root in (data_dir, os.environ.get("BIPPO_DATA")) if root]
    return _load(name, tuple(str(Path(root).expanduser().resolve()) for root in roots))


@lru_cache(maxsize=4)
def _load(name: str, roots: tuple[str, ...]) -> Dataset:
    if name == "digits":
        return _digits()
    if is_import(name):
        return _load_own(name, roots[0] if roots else None)
    if name not in _HELP:
        raise ValueError(f"data set is {name!r}; choose one of digits, {', '.join(_HELP)}")
    folders = [Path(root) for root in roots]
    dataset = _from_original_files(name, folders) or _from_image_folder(name, folders)
    if dataset is None:
        raise ValueError(_missing(name, folders))
    return dataset


def _load_own(name: str, data_dir: str | None) -> Dataset:
    dataset = import_name("dataset", name)(data_dir)
    if not isinstance(dataset, Dataset):
        raise ValueError(f"dataset {name} returned a {type(dataset).__name__}; it must return an envs.Dataset")
    for split in ("train", "test"):
        images, labels = getattr(dataset, f"{split}_images"), getattr(dataset, f"{split}_labels")
        if images.dtype != torch.uint8 or images.ndim != 4 or labels.dtype != torch.int64 or len(images) != len(labels):
            raise ValueError(
                f"dataset {name}: {split} images are {images.dtype}{list(images.shape)}, labels {labels.dtype}"
                f"{list(labels.shape)}; expected uint8[num, channels, height, width] and int64[num]"
            )
        if len(labels) == 0 or not 0 <= int(labels.min()) <= int(labels.max()) < len(dataset.classes):
            raise ValueError(f"dataset {name}: {split} must hold labels from 0 to {len(dataset.classes) - 1} only")
    return dataset


def _digits() -> Dataset:
    from sklearn.datasets import load_digits
    from sklearn.model_selection import train_test_split

    digits = load_digits()
    images = digits.images.astype(np.uint8)[:, None]
    labels = digits.target.astype(np.int64)
    train, test = train_test_split(np.arange(len(labels)), test_size=0.3, random_state=0, stratify=labels)
    splits = [(images[np.sort(index)], labels[np.sort(index)]) for index in (train, test)]
    return _dataset("digits", splits[0], splits[1], tuple(str(label) for label in digits.target_names), max_value=16)


def _from_original_files(name: str, roots: list[Path]) -> Dataset | None:
    if name == "fashion_mnist" and (folder := idx_folder(roots)):
        return _dataset(name, read_idx_split(folder, "train"), read_idx_split(folder, "test"), FASHION_CLASSES)
    if name == "cifar10" and (source := cifar_source(roots)):
        return _dataset(name, read_cifar_split(source, "train"), read_cifar_split(source, "test"), CIFAR10_CLASSES)
    return None


def _from_image_folder(name: str, roots: list[Path]) -> Dataset | None:
    # Asked for a data set by name, another one's folder beside it must not be taken for it.
    folder = image_folder(roots, hint={"fashion_mnist": "fashion", "cifar10": "cifar"}.get(name, ""))
    if folder is None:
        return None
    splits, classes = read_image_folder(folder, {"fashion_mnist": "L", "cifar10": "RGB"}.get(name))
    if name != "image_folder" and len(classes) != 10:
        raise ValueError(f"{folder}: {name} has 10 classes, these are {len(classes)}; use dataset='image_folder'")
    return Dataset(name, *splits["train"], *splits["test"], classes)


def _dataset(name: str, train: Split, test: Split, classes: tuple[str, ...], max_value: int = 255) -> Dataset:
    (train_images, train_labels), (test_images, test_labels) = (map(torch.from_numpy, split) for split in (train, test))
    return Dataset(name, train_images, train_labels, test_images, test_labels, classes, max_value)


def _missing(name: str, roots: list[Path]) -> str:
    looked = ", ".join(str(root) for root in roots) or "nowhere: neither data_dir nor $BIPPO_DATA is set"
    zips = sorted(str(path) for root in roots if root.is_dir() for path in root.glob("*.zip"))
    hint = f" (unzip {zips[0]} and point to the folder)" if zips else ""
    return f"no {name} data found; looked in {looked}{hint}. {_HELP[name]}"
