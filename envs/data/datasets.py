"""Image classification data sets as tensors: loaded once per process, never downloaded."""

from __future__ import annotations

import os
import zipfile
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from envs.checks import one_of
from envs.data.image_folders import read_image_folder
from envs.data.image_tree import image_trees, is_zip
from envs.data.published import PUBLISHED, Published
from envs.data.readers import Split, cifar_source, folders_of, has_idx_files, read_cifar, read_idx
from envs.dataset_defaults import absolute_data_dir
from envs.imports import import_name, is_import

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
        data_dir: Where it lies; None for ``$BIPPO_DATA``.

    Raises:
        ValueError: If the name is unknown, the data is not there, a file cannot be read or another data set's lies
            there; one line that names it.
    """
    return _load(name, absolute_data_dir(data_dir))


@lru_cache(maxsize=4)
def _load(name: str, data_dir: str | None) -> Dataset:
    if name == "digits":
        return _digits()
    if is_import(name):
        return _checked(name, import_name("dataset", name)(data_dir))
    one_of("data set", name, ("digits", *_HELP))
    if data_dir is None:
        raise ValueError(f"no {name} data found: neither data_dir nor $BIPPO_DATA is set. {_HELP[name]}")
    root = Path(data_dir)
    dataset = _published(name, PUBLISHED[name], root) if name in PUBLISHED else _own_images(name, root)
    if dataset is None:
        raise ValueError(_missing(name, root))
    return _checked(name, dataset)


def _checked(name: str, dataset: object) -> Dataset:
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


def _published(name: str, known: Published, root: Path) -> Dataset | None:
    """From its original files, or else from folders of images."""
    if source := _original_files(name, known, root):
        train, test, md5 = read_idx(source) if name == "fashion_mnist" else read_cifar(source)
        known.check_files(source, md5)
        classes = known.classes
    elif trees := image_trees(root, known.folders):
        source = trees[0].source
        splits, classes = read_image_folder(trees[0], known.mode)
        train, test = splits["train"], splits["test"]
    else:
        return None
    known.check_images(source, train[0].shape[1:], classes)
    return _dataset(name, train, test, classes)


def _original_files(name: str, known: Published, root: Path) -> Path | None:
    if name == "cifar10":
        return cifar_source(root)
    return next((path for path in folders_of(root) if has_idx_files(path) and not known.is_sisters(path)), None)


def _own_images(name: str, root: Path) -> Dataset | None:
    trees = image_trees(root)
    if not trees:
        return None
    if len({tree.source.stem for tree in trees}) > 1:  # one beside its own zip archive is no other
        found = ", ".join(tree.source.name for tree in trees)
        raise ValueError(f"{root} has several folders with train/ and test/: {found}; point data_dir to one of them")
    splits, classes = read_image_folder(trees[0])
    return _dataset(name, splits["train"], splits["test"], classes)


def _dataset(name: str, train: Split, test: Split, classes: tuple[str, ...], max_value: int = 255) -> Dataset:
    (train_images, train_labels), (test_images, test_labels) = (map(torch.from_numpy, split) for split in (train, test))
    return Dataset(name, train_images, train_labels, test_images, test_labels, classes, max_value)


def _missing(name: str, root: Path) -> str:
    known = PUBLISHED.get(name)
    sisters = [path for path in folders_of(root) if known and known.is_sisters(path)]
    zips = [path for path in (root, *sorted(root.glob("*"))) if path.is_file() and is_zip(path)]
    hint = ""
    if not root.exists():
        hint = ", which does not exist"
    elif sisters:
        hint = f" ({sisters[0]} holds another data set)"
    elif zips:
        whole = zipfile.is_zipfile(zips[0])
        hint = f" (unzip {zips[0]} and point to the folder)" if whole else f" ({zips[0]} is no whole zip archive)"
    return f"no {name} data found; looked in {root}{hint}. {_HELP[name]}"
