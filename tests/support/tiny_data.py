"""Writes tiny generated data sets in every layout that ``envs.data.datasets`` reads."""

from __future__ import annotations

import dataclasses
import gzip
import hashlib
import pickle
import shutil
import tarfile
from pathlib import Path

import numpy as np
import pytest
from PIL import Image


def labels(per_class: int, num_classes: int = 10) -> np.ndarray:
    """``[per_class * num_classes]`` labels 0, 1, ... in turn."""
    return np.tile(np.arange(num_classes), per_class)


def pixels(label: np.ndarray, size: int, channels: int, seed: int = 0) -> np.ndarray:
    """``uint8[n, size, size, channels]``: noise below 40 with a bright row that tells the label."""
    images = np.random.default_rng(seed).integers(0, 40, (len(label), size, size, channels), dtype=np.uint8)
    for image, row in zip(images, label, strict=True):
        image[2 * row : 2 * row + 2] += 200
    return images


def write_idx(folder: Path, per_class: int = 6, *, zipped: bool = True) -> Path:
    """Fashion-MNIST's original files, or torchvision's unzipped ones."""
    folder.mkdir(parents=True, exist_ok=True)
    for seed, prefix in enumerate(("train", "t10k")):
        label = labels(per_class)
        image = pixels(label, 28, 1, seed)[..., 0]
        for name, values in ((f"{prefix}-images-idx3-ubyte", image), (f"{prefix}-labels-idx1-ubyte", label)):
            header = bytes([0, 0, 8, values.ndim]) + np.array(values.shape, dtype=">u4").tobytes()
            content = header + values.astype(np.uint8).tobytes()
            path = folder / (f"{name}.gz" if zipped else name)
            path.write_bytes(gzip.compress(content) if zipped else content)
    return folder


def write_cifar_batches(root: Path, per_class: int = 5) -> Path:
    """torchvision's ``cifar-10-batches-py``."""
    folder = root / "cifar-10-batches-py"
    folder.mkdir(parents=True)
    for seed, name in enumerate([*(f"data_batch_{number}" for number in range(1, 6)), "test_batch"]):
        label = labels(per_class)
        data = pixels(label, 32, 3, seed).transpose(0, 3, 1, 2).reshape(len(label), -1)
        (folder / name).write_bytes(pickle.dumps({"data": data, "labels": label.tolist()}))
    return root


def pack_cifar_batches(root: Path) -> None:
    """Makes the original ``cifar-10-python.tar.gz`` out of the folder."""
    folder = root / "cifar-10-batches-py"
    with tarfile.open(root / "cifar-10-python.tar.gz", "w:gz") as tar:
        tar.add(folder, arcname=folder.name)
    shutil.rmtree(folder)


def cifar_md5(root: Path) -> dict[str, str]:
    """Sums of the batches that ``write_cifar_batches`` wrote as a folder, by name."""
    paths = (root / "cifar-10-batches-py").iterdir()
    return {path.name: hashlib.md5(path.read_bytes()).hexdigest() for path in paths}


def publish(monkeypatch: pytest.MonkeyPatch, name: str, md5: dict[str, str]) -> None:
    """Makes the files with these sums those that were published."""
    from envs.data.published import PUBLISHED  # with torchvision, which takes seconds to import

    monkeypatch.setitem(PUBLISHED, name, dataclasses.replace(PUBLISHED[name], md5=md5))


def publish_cifar_batches(
    monkeypatch: pytest.MonkeyPatch, root: Path, per_class: int = 5, *, archive: bool = False
) -> Path:
    """Writes CIFAR-10's files, which are read as the published ones."""
    publish(monkeypatch, "cifar10", cifar_md5(write_cifar_batches(root, per_class)))
    if archive:
        pack_cifar_batches(root)
    return root


def write_image_folders(
    root: Path, *, classes: int = 10, per_class: int = 4, size: int = 32, channels: int = 3, suffix: str = "png"
) -> Path:
    """``train/<class>/*`` and ``test/<class>/*``."""
    for seed, split in enumerate(("train", "test")):
        label = labels(per_class, classes)
        for place, (image, name) in enumerate(zip(pixels(label, size, channels, seed), label, strict=True)):
            folder = root / split / f"class_{name}"
            folder.mkdir(parents=True, exist_ok=True)
            Image.fromarray(image[..., 0] if channels == 1 else image).save(folder / f"{place:04d}.{suffix}")
    return root
