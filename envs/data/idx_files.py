"""Reads the original files of Fashion-MNIST (idx)."""

from __future__ import annotations

import gzip
import math
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import numpy as np

from envs.data.original_files import ADVICE, Split, md5_of
from envs.data.read_errors import reading
from envs.data.whole_files import read_stream, read_whole

_FILES = {
    "train": ("train-images-idx3-ubyte", "train-labels-idx1-ubyte"),
    "test": ("t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte"),
}


class IdxFiles(NamedTuple):
    """Two splits, each ``uint8[n, 1, height, width]`` images and ``int64[n]`` labels, and what they are from."""

    train: Split
    test: Split
    md5: Mapping[str, str]  #: Of each file as it is when it is unpacked.


def has_idx_files(folder: Path) -> bool:
    """Returns whether Fashion-MNIST's four idx files are there, gzipped or not."""
    names = [name for pair in _FILES.values() for name in pair]
    return all((folder / name).is_file() or (folder / f"{name}.gz").is_file() for name in names)


def read_idx(folder: Path) -> IdxFiles:
    """Reads the four files.

    Raises:
        ValueError: If one is corrupt or truncated; names it.
    """
    md5: dict[str, str] = {}
    train, test = (_read_idx_split(folder, split, md5) for split in ("train", "test"))
    return IdxFiles(train, test, md5)


def _read_idx_split(folder: Path, split: str, md5: dict[str, str]) -> Split:
    images, labels = (_read_idx(folder, name, md5) for name in _FILES[split])
    if images.ndim != 3 or labels.ndim != 1 or len(images) != len(labels):
        raise ValueError(f"{folder}: {split} images have shape {images.shape}, labels {labels.shape}; {ADVICE}")
    return images[:, None], labels.astype(np.int64)


def _read_idx(folder: Path, name: str, md5: dict[str, str]) -> np.ndarray:
    plain, zipped = folder / name, folder / f"{name}.gz"
    path = plain if plain.is_file() else zipped
    with reading(path, ADVICE):
        content = read_whole(path) if path == plain else _gunzipped(path)
        md5[name] = md5_of(content)
        return _idx_array(content)


def _gunzipped(path: Path) -> bytearray:
    with gzip.open(path) as stream:
        return read_stream(stream)


def _idx_array(content: bytearray) -> np.ndarray:
    """``uint8`` array on the memory of ``content``: two zeros, type, number of dimensions, sizes, values."""
    if content[:3] != b"\0\0\x08":
        raise ValueError("it does not begin as an idx file of unsigned bytes does")
    start = 4 + 4 * content[3]
    shape = tuple(np.frombuffer(content[4:start], ">u4").tolist())
    if math.prod(shape) != len(content) - start:
        raise ValueError(f"its header announces {' x '.join(map(str, shape))} values, {len(content) - start} follow")
    return np.frombuffer(content, np.uint8, offset=start).reshape(shape)
