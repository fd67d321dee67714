"""Classification data sets as tensors: loaded once per process, never downloaded."""

from __future__ import annotations

import gzip
import os
from dataclasses import dataclass
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from envs.checks import SettingError, one_of, printable
from envs.dataset_defaults import absolute_data_dir
from envs.imports import import_function, is_import, own_code

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
        train_inputs: ``[num_train, ...]``, ``uint8`` or ``float32``. Images are ``[num, channels, height, width]``,
            other data has any shape that the model takes. Integers are scaled to [-1, 1], floats stay as they are.
        train_labels: ``int64[num_train]``.
        test_inputs: ``[num_test, ...]``, of the same type and shape.
        test_labels: ``int64[num_test]``.
        classes: Names of the labels.
        max_value: The largest value of ``uint8`` inputs.
        train_users: ``int64[num_train]`` user of each sample, for ``partition="natural"``; None if unknown.
        test_users: ``int64[num_test]``, of the same users.
    """

    name: str
    train_inputs: Tensor
    train_labels: Tensor
    test_inputs: Tensor
    test_labels: Tensor
    classes: tuple[str, ...]
    max_value: int = 255
    train_users: Tensor | None = None
    test_users: Tensor | None = None

    @property
    def input_shape(self) -> tuple[int, ...]:
        """Returns the shape of a sample; (channels, height, width) of an image."""
        return tuple(self.train_inputs.shape[1:])


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
    except SettingError:
        raise
    except ValueError as error:
        raise ValueError(printable(error)) from error


@lru_cache(maxsize=4)
def _load(name: str, data_dir: str | None) -> Dataset:
    if name == "digits":
        return _digits()
    if is_import(name):
        load = import_function("dataset", name)
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
        _check_split(name, split, *(getattr(dataset, f"{split}_{part}") for part in ("inputs", "labels", "users")))
        labels = getattr(dataset, f"{split}_labels")
        if len(labels) == 0 or not 0 <= int(labels.min()) <= int(labels.max()) < len(dataset.classes):
            raise ValueError(f"dataset {name}: {split} must hold labels from 0 to {len(dataset.classes) - 1} only")
    shapes = [tuple(inputs.shape[1:]) for inputs in (dataset.train_inputs, dataset.test_inputs)]
    if shapes[0] != shapes[1]:
        raise ValueError(f"dataset {name}: train inputs are {shapes[0]} and test inputs {shapes[1]}; make them alike")
    return dataset


def _check_split(name: str, split: str, inputs: Any, labels: Any, users: Any) -> None:
    parts = {"inputs": inputs, "labels": labels} | ({} if users is None else {"users": users})
    expected = "torch tensors: uint8[num, ...] or float32[num, ...], int64[num] labels and users"
    for part, tensor in parts.items():
        if not isinstance(tensor, Tensor):
            raise ValueError(f"dataset {name}: {split} {part} are a {type(tensor).__name__}; expected {expected}")
    fits = inputs.dtype in (torch.uint8, torch.float32) and inputs.ndim >= 2
    of_samples = [tensor.dtype == torch.int64 and tensor.shape == inputs.shape[:1] for tensor in [*parts.values()][1:]]
    if not fits or not all(of_samples):
        found = ", ".join(f"{part} {tensor.dtype}{list(tensor.shape)}" for part, tensor in parts.items())
        raise ValueError(f"dataset {name}: {split} has {found}; expected {expected}")
    if inputs.is_floating_point() and not torch.isfinite(inputs).all():
        raise ValueError(f"dataset {name}: {split} inputs hold numbers that are not finite; replace them")


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
    (train_inputs, train_labels), (test_inputs, test_labels) = (map(torch.from_numpy, split) for split in (train, test))
    return Dataset(name, train_inputs, train_labels, test_inputs, test_labels, classes, max_value)
