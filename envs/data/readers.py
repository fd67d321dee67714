"""Readers of the original files of Fashion-MNIST (idx) and CIFAR-10 (Python batches)."""

from __future__ import annotations

import gzip
import pickle
import tarfile
from pathlib import Path
from typing import Any

import numpy as np

Split = tuple[np.ndarray, np.ndarray]

_IDX_FILES = {
    "train": ("train-images-idx3-ubyte", "train-labels-idx1-ubyte"),
    "test": ("t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte"),
}
_CIFAR_FILES = {"train": [f"data_batch_{number}" for number in range(1, 6)], "test": ["test_batch"]}
_CIFAR_FOLDER = "cifar-10-batches-py"
_CIFAR_ARCHIVE = "cifar-10-python.tar.gz"


def idx_folder(roots: list[Path]) -> Path | None:
    """The first folder with Fashion-MNIST's four idx files, gzipped or not: a root, or up to two levels below."""
    names = [name for pair in _IDX_FILES.values() for name in pair]
    for folder in _folders(roots):
        if all((folder / name).is_file() or (folder / f"{name}.gz").is_file() for name in names):
            return folder
    return None


def read_idx_split(folder: Path, split: str) -> Split:
    """``uint8[n, 1, height, width]`` images and ``int64[n]`` labels.

    Raises:
        ValueError: If a file is corrupt or truncated; names it.
    """
    images, labels = (_read_idx(folder, name) for name in _IDX_FILES[split])
    if images.ndim != 3 or labels.ndim != 1 or len(images) != len(labels):
        raise ValueError(f"{folder}: {split} images have shape {images.shape}, labels {labels.shape}; download again")
    return images[:, None], labels.astype(np.int64)


def cifar_source(roots: list[Path]) -> Path | None:
    """The first folder ``cifar-10-batches-py`` or archive ``cifar-10-python.tar.gz``."""
    for folder in _folders(roots):
        if all((folder / name).is_file() for names in _CIFAR_FILES.values() for name in names):
            return folder
        if (folder / _CIFAR_ARCHIVE).is_file():
            return folder / _CIFAR_ARCHIVE
    return None


def read_cifar_split(source: Path, split: str) -> Split:
    """``uint8[n, 3, 32, 32]`` images and ``int64[n]`` labels.

    Raises:
        ValueError: If a file is corrupt or truncated; names it.
    """
    batches = [_read_batch(source, name) for name in _CIFAR_FILES[split]]
    images = np.concatenate([batch["data"] for batch in batches]).reshape(-1, 3, 32, 32)
    return images, np.concatenate([batch["labels"] for batch in batches]).astype(np.int64)


def _folders(roots: list[Path]) -> list[Path]:
    """Each root, its folders and theirs, in the order of their names; folders of images per class hold none."""
    found = []
    for root in roots:
        below = sorted(path for path in root.glob("*") if path.is_dir()) if root.is_dir() else []
        found += [root, *below]
        for folder in below:
            if folder.name not in ("train", "test"):
                found += sorted(path for path in folder.glob("*") if path.is_dir())
    return found


def _read_idx(folder: Path, name: str) -> np.ndarray:
    plain, zipped = folder / name, folder / f"{name}.gz"
    path = plain if plain.is_file() else zipped
    try:
        content = path.read_bytes() if path == plain else gzip.decompress(path.read_bytes())
        dims = content[3]
        shape = np.frombuffer(content, ">u4", count=dims, offset=4)
        values = np.frombuffer(content, np.uint8, offset=4 + 4 * dims)
        return values.reshape(shape).copy()
    except (OSError, EOFError, IndexError, ValueError) as error:
        raise ValueError(f"corrupt or truncated file {path}: {error}; download it again") from error


def _read_batch(source: Path, name: str) -> dict[str, Any]:
    where = f"{source}:{name}" if source.is_file() else str(source / name)
    try:
        if source.is_file():
            with tarfile.open(source) as archive:
                member = archive.extractfile(f"{_CIFAR_FOLDER}/{name}")
                if member is None:
                    raise OSError(f"{name} is not a file")
                batch = pickle.load(member, encoding="latin1")
        else:
            with (source / name).open("rb") as file:
                batch = pickle.load(file, encoding="latin1")
        images = np.asarray(batch["data"], dtype=np.uint8).reshape(len(batch["labels"]), 3072)
        return {"data": images, "labels": np.asarray(batch["labels"])}
    except (OSError, EOFError, KeyError, TypeError, ValueError, pickle.UnpicklingError, tarfile.TarError) as error:
        raise ValueError(f"corrupt or truncated file {where}: {error}; download it again") from error
