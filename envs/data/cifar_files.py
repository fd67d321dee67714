"""Reads the original files of CIFAR-10 (pickled batches), packed or not."""

from __future__ import annotations

import gzip
import pickle
import tarfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from envs.data.original_files import ADVICE, Split, folders_of, md5_of
from envs.data.read_errors import reading
from envs.data.whole_files import Limited, read_stream, read_whole

_FILES = {"train": [f"data_batch_{number}" for number in range(1, 6)], "test": ["test_batch"]}
_NAMES = [name for names in _FILES.values() for name in names]
_FOLDER = "cifar-10-batches-py"
_ARCHIVE = "cifar-10-python.tar.gz"


def cifar_source(root: Path) -> Path | None:
    """Finds the first folder with CIFAR-10's batches or archive ``cifar-10-python.tar.gz``; None if there is none."""
    for folder in folders_of(root):
        if all((folder / name).is_file() for name in _NAMES):
            return folder
        for path in (folder, folder / _ARCHIVE):
            if path.name == _ARCHIVE and path.is_file():
                return path
    return None


def read_cifar(source: Path, md5: Mapping[str, str]) -> tuple[Split, Split]:
    """Reads the six batches: ``uint8[n, 3, 32, 32]`` images and ``int64[n]`` labels of both splits.

    Args:
        source: Their folder or archive.
        md5: Sums of the published batches, by name. Batches are pickles, which may run any code: no other is unpickled.

    Raises:
        ValueError: If one is missing, damaged or not the published one; names it.
    """
    batches: dict[str, Split] = {}
    for where, name, content in _unpacked(source) if source.is_file() else _in_folder(source):
        with reading(where, ADVICE):
            batches[name] = _batch(content, md5[name])
    if missing := [name for name in _NAMES if name not in batches]:
        raise ValueError(f"{source} does not hold {', '.join(missing)}; {ADVICE}")
    train, test = ([batches[name] for name in _FILES[split]] for split in ("train", "test"))
    return _joined(train), _joined(test)


def _in_folder(folder: Path) -> Iterator[tuple[str, str, bytearray]]:
    """Where each batch is, its name and content."""
    for name in _NAMES:
        with reading(folder / name, ADVICE):
            content = read_whole(folder / name)
        yield str(folder / name), name, content


def _unpacked(archive: Path) -> Iterator[tuple[str, str, bytearray]]:
    """The same of an archive, in one pass; nothing is written to the disk."""
    with reading(archive, ADVICE), gzip.open(archive) as file, tarfile.open(fileobj=_limited(file), mode="r|") as tar:
        for member in tar:
            folder, _, name = member.name.rpartition("/")
            if folder == _FOLDER and name in _NAMES and (stream := tar.extractfile(member)):
                yield f"{archive}:{name}", name, read_stream(stream)


def _limited(file: Any) -> Any:
    return Limited(file)  # tarfile's types ask for more than the method that it calls


def _batch(content: bytearray, md5: str) -> Split:
    if md5_of(content) != md5:
        raise ValueError(f"its md5 is {md5_of(content)}, that of the published file {md5}; only that one is unpickled")
    batch = pickle.loads(content, encoding="latin1")
    labels = np.asarray(batch["labels"], dtype=np.int64)
    return np.asarray(batch["data"], dtype=np.uint8).reshape(len(labels), 3, 32, 32), labels


def _joined(batches: Sequence[Split]) -> Split:
    return np.concatenate([images for images, _ in batches]), np.concatenate([labels for _, labels in batches])
