"""Image classification data sets as tensors: loaded once per process, never downloaded."""

from __future__ import annotations

import gzip
import os
from dataclasses import dataclass
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from envs.checks import one_line, one_of
from envs.dataset_defaults import absolute_data_dir
from envs.imports import import_name, is_import, own_code

if TYPE_CHECKING:
    from envs.data.original_files import Split


#: A bit for each image of digits, 1 in the test split: scikit-learn's ``train_test_split`` with ``test_size=0.3``,
#: ``random_state=0`` and ``stratify=labels``.
_DIGITS_TEST = (
    "002004c8b5263040081641219342050c5a00081122240028062c1e081108960a009019320430fca0128194e042284adab0441724c942c8a2"
    "4a2030806004d821408b802000588dc50010400ea09000054ae801301000228ecc09005226840083b8053c23a69c0a0224000fc9542804a4"
    "98cd02124061e500802c604e9c376b8192160154c8404842a0a4180a5000b60b8561e68913804b126c80c02205068e420109f202c141b988"
    "13c809190001948e21028410a8f52033283920c944c8c8688a0102932292030922a6402d26062108a8608198c8a0141286124a12853ca415"
    "20"
)


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
    try:
        return _load(name, absolute_data_dir(data_dir))
    except ValueError as error:
        raise ValueError(one_line(error)) from error


@lru_cache(maxsize=4)
def _load(name: str, data_dir: str | None) -> Dataset:
    if name == "digits":
        return _digits()
    if is_import(name):
        load = import_name("dataset", name)
        with own_code(f"dataset {name}"):
            dataset = load(data_dir)
        return _checked(name, dataset)
    from envs.data import on_disk  # with torchvision, seconds of every process's start

    one_of("data set", name, ("digits", *on_disk.HELP))
    return _checked(name, _dataset(name, *on_disk.read(name, data_dir)))


def _checked(name: str, dataset: object) -> Dataset:
    if not isinstance(dataset, Dataset):
        raise ValueError(f"dataset {name} returned a {type(dataset).__name__}; it must return an envs.Dataset")
    for split in ("train", "test"):
        images, labels = getattr(dataset, f"{split}_images"), getattr(dataset, f"{split}_labels")
        fits = images.dtype == torch.uint8 and images.ndim == 4 and labels.dtype == torch.int64
        if not fits or labels.shape != (len(images),):
            raise ValueError(
                f"dataset {name}: {split} images are {images.dtype}{list(images.shape)}, labels {labels.dtype}"
                f"{list(labels.shape)}; expected uint8[num, channels, height, width] and int64[num]"
            )
        if len(labels) == 0 or not 0 <= int(labels.min()) <= int(labels.max()) < len(dataset.classes):
            raise ValueError(f"dataset {name}: {split} must hold labels from 0 to {len(dataset.classes) - 1} only")
    shapes = [tuple(images.shape[1:]) for images in (dataset.train_images, dataset.test_images)]
    if shapes[0] != shapes[1]:
        raise ValueError(f"dataset {name}: train images are {shapes[0]} and test images {shapes[1]}; make them alike")
    return dataset


def _digits() -> Dataset:
    """Reads scikit-learn's file without scikit-learn, which takes as long to import as many a trial to run."""
    (package,) = find_spec("sklearn").submodule_search_locations  # type: ignore[union-attr, misc]
    with gzip.open(Path(package, "datasets", "data", "digits.csv.gz")) as file:
        table = np.loadtxt(file, np.uint8, delimiter=",")
    images, labels = table[:, :-1].reshape(-1, 8, 8)[:, None], table[:, -1].astype(np.int64)
    in_test = np.unpackbits(np.frombuffer(bytes.fromhex(_DIGITS_TEST), np.uint8), count=len(labels)).astype(bool)
    train, test = ((images[chosen], labels[chosen]) for chosen in (~in_test, in_test))
    return _dataset("digits", train, test, tuple("0123456789"), max_value=16)


def _dataset(name: str, train: Split, test: Split, classes: tuple[str, ...], max_value: int = 255) -> Dataset:
    (train_images, train_labels), (test_images, test_labels) = (map(torch.from_numpy, split) for split in (train, test))
    return Dataset(name, train_images, train_labels, test_images, test_labels, classes, max_value)
