"""Readers of the original files of Fashion-MNIST (idx) and CIFAR-10 (Python batches)."""

from __future__ import annotations

import gzip
import hashlib
import pickle
import tarfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NamedTuple

import numpy as np

from envs.data.image_tree import is_visible
from envs.data.read_errors import reading

Split = tuple[np.ndarray, np.ndarray]

_ADVICE = "download it again"
_IDX_FILES = {
    "train": ("train-images-idx3-ubyte", "train-labels-idx1-ubyte"),
    "test": ("t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte"),
}
_CIFAR_FILES = {"train": [f"data_batch_{number}" for number in range(1, 6)], "test": ["test_batch"]}
_CIFAR_FOLDER = "cifar-10-batches-py"
_CIFAR_ARCHIVE = "cifar-10-python.tar.gz"


class Originals(NamedTuple):
    """Two splits, each ``uint8[n, channels, height, width]`` images and ``int64[n]`` labels, and what they are from."""

    train: Split
    test: Split
    md5: Mapping[str, str]  #: Of each file as it is when it is unpacked.


def folders_of(root: Path) -> list[Path]:
    """``root``, its folders and theirs, in the order of their names; folders of images per class hold none."""
    below = _folders_in(root)
    deeper = [path for folder in below if folder.name not in ("train", "test") for path in _folders_in(folder)]
    return [root, *below, *deeper]


def has_idx_files(folder: Path) -> bool:
    """Whether Fashion-MNIST's four idx files are there, gzipped or not."""
    names = [name for pair in _IDX_FILES.values() for name in pair]
    return all((folder / name).is_file() or (folder / f"{name}.gz").is_file() for name in names)


def read_idx(folder: Path) -> Originals:
    """Reads the four files.

    Raises:
        ValueError: If one is corrupt or truncated; names it.
    """
    return _both_splits(_read_idx_split, folder)


def cifar_source(root: Path) -> Path | None:
    """The first folder with CIFAR-10's batches or archive ``cifar-10-python.tar.gz``."""
    for folder in folders_of(root):
        if all((folder / name).is_file() for names in _CIFAR_FILES.values() for name in names):
            return folder
        for path in (folder, folder / _CIFAR_ARCHIVE):
            if path.name == _CIFAR_ARCHIVE and path.is_file():
                return path
    return None


def read_cifar(source: Path) -> Originals:
    """Reads the six batches, 3x32x32 each image.

    Raises:
        ValueError: If one is corrupt or truncated; names it.
    """
    return _both_splits(_read_cifar_split, source)


def _both_splits(read: Callable[[Path, str, dict[str, str]], Split], source: Path) -> Originals:
    md5: dict[str, str] = {}
    train, test = (read(source, split, md5) for split in ("train", "test"))
    return Originals(train, test, md5)


def _folders_in(folder: Path) -> list[Path]:
    return sorted(path for path in folder.glob("*") if path.is_dir() and is_visible(path.name))


def _read_idx_split(folder: Path, split: str, md5: dict[str, str]) -> Split:
    images, labels = (_read_idx(folder, name, md5) for name in _IDX_FILES[split])
    if images.ndim != 3 or labels.ndim != 1 or len(images) != len(labels):
        raise ValueError(f"{folder}: {split} images have shape {images.shape}, labels {labels.shape}; download again")
    return images[:, None], labels.astype(np.int64)


def _read_idx(folder: Path, name: str, md5: dict[str, str]) -> np.ndarray:
    plain, zipped = folder / name, folder / f"{name}.gz"
    path = plain if plain.is_file() else zipped
    with reading(path, _ADVICE):
        content = path.read_bytes() if path == plain else gzip.decompress(path.read_bytes())
        dims = content[3]
        shape = np.frombuffer(content, ">u4", count=dims, offset=4)
        values = np.frombuffer(content, np.uint8, offset=4 + 4 * dims)
        md5[name] = _md5(content)
        return values.reshape(shape).copy()


def _read_cifar_split(source: Path, split: str, md5: dict[str, str]) -> Split:
    batches = [_read_batch(source, name, md5) for name in _CIFAR_FILES[split]]
    return np.concatenate([images for images, _ in batches]), np.concatenate([labels for _, labels in batches])


def _read_batch(source: Path, name: str, md5: dict[str, str]) -> Split:
    with reading(f"{source}:{name}" if source.is_file() else source / name, _ADVICE):
        content = _from_archive(source, name) if source.is_file() else (source / name).read_bytes()
        md5[name] = _md5(content)
        batch = pickle.loads(content, encoding="latin1")
        labels = np.asarray(batch["labels"], dtype=np.int64)
        return np.asarray(batch["data"], dtype=np.uint8).reshape(len(labels), 3, 32, 32), labels


def _from_archive(source: Path, name: str) -> bytes:
    with tarfile.open(source) as archive:
        member = archive.extractfile(f"{_CIFAR_FOLDER}/{name}")
        if member is None:
            raise ValueError(f"{name} is not a file")
        return member.read()


def _md5(content: bytes) -> str:
    return hashlib.md5(content, usedforsecurity=False).hexdigest()
