"""Folders of images, ``train/<class>/*`` and ``test/<class>/*``, decoded once and kept in the user's cache folder."""

from __future__ import annotations

import hashlib
import os
import tempfile
from pathlib import Path

import numpy as np
import torch
from PIL import Image
from torch import Tensor
from torchvision.datasets import ImageFolder

ImageSplit = tuple[Tensor, Tensor]

_SPLITS = ("train", "test")


def image_folder(roots: list[Path], hint: str = "") -> Path | None:
    """The first root, or folder in a root with ``hint`` in its name, that has ``train/`` and ``test/``."""
    for root in roots:
        below = sorted(path for path in root.glob("*") if hint in path.name.lower()) if root.is_dir() else []
        for folder in (root, *below):
            if all((folder / split).is_dir() for split in _SPLITS):
                return folder
    return None


def read_image_folder(
    folder: Path, mode: str | None = None
) -> tuple[dict[str, tuple[Tensor, Tensor]], tuple[str, ...]]:
    """Reads both splits.

    Args:
        folder: Holds ``train/<class>/*`` and ``test/<class>/*``; all images of one size.
        mode: PIL mode, ``L`` (grey) or ``RGB``; None for grey if the first image is.

    Returns:
        Per split ``uint8[n, channels, height, width]`` images and ``int64[n]`` labels, and the class names, sorted.

    Raises:
        ValueError: If the classes of the splits differ, an image is corrupt or of another size; names the file.
    """
    listings = {split: _listed(folder / split) for split in _SPLITS}
    classes = listings["train"].classes
    if classes != listings["test"].classes:
        odd = sorted(set(classes) ^ set(listings["test"].classes))
        raise ValueError(f"{folder}: train/ and test/ must have the same classes; only one has {', '.join(odd)}")
    mode = mode or _mode(listings["train"].samples[0][0])
    images = _decoded_or_cached([Path(path) for split in _SPLITS for path, _ in listings[split].samples], mode)
    num_train = len(listings["train"])
    pieces = {"train": images[:num_train], "test": images[num_train:]}
    splits = {split: (pieces[split], torch.tensor(listings[split].targets)) for split in _SPLITS}
    return splits, tuple(classes)


def _listed(folder: Path) -> ImageFolder:
    try:
        return ImageFolder(str(folder))
    except (OSError, RuntimeError) as error:
        message = str(error).splitlines()[0]
        raise ValueError(f"{folder}: {message} (expected {folder}/<class>/*.png, .jpg, ...)") from error


def _mode(path: str) -> str:
    with _opened(Path(path)) as image:
        return "L" if image.mode in ("1", "L", "I", "I;16") else "RGB"


def _opened(path: Path) -> Image.Image:
    try:
        return Image.open(path)
    except OSError as error:
        raise ValueError(f"corrupt image file {path}; replace or remove it") from error


def _decoded(paths: list[Path], mode: str) -> Tensor:
    shape: tuple[int, ...] | None = None
    images: np.ndarray | None = None
    for place, path in enumerate(paths):
        pixels = _pixels(path, mode)
        if images is None or shape is None:
            shape = pixels.shape
            images = np.empty((len(paths), *shape), dtype=np.uint8)
        if pixels.shape != shape:
            raise ValueError(
                f"{path} has {pixels.shape[1]}x{pixels.shape[0]} pixels, {paths[0]} has {shape[1]}x{shape[0]}; "
                f"all images must have one size, resize them"
            )
        images[place] = pixels
    stacked = torch.from_numpy(np.asarray(images))
    return stacked.unsqueeze(1) if stacked.ndim == 3 else stacked.permute(0, 3, 1, 2).contiguous()


def _pixels(path: Path, mode: str) -> np.ndarray:
    try:
        with _opened(path) as image:
            return np.asarray(image.convert(mode))
    except (OSError, SyntaxError) as error:  # PIL raises SyntaxError for some broken PNG files
        raise ValueError(f"corrupt image file {path}; replace or remove it") from error


def _decoded_or_cached(paths: list[Path], mode: str) -> Tensor:
    """Decoding tens of thousands of files takes a minute, reading one large file a second."""
    cache = _cache_path(paths, mode)
    try:
        cached: Tensor = torch.load(cache, weights_only=True)
        if cached.dtype == torch.uint8 and len(cached) == len(paths):
            return cached
    except Exception:  # whatever is wrong with a cache file, the images themselves are there
        pass
    images = _decoded(paths, mode)
    _keep(images, cache)
    return images


def _cache_path(paths: list[Path], mode: str) -> Path:
    """Keyed by every file's path, size and time of change."""
    digest = hashlib.sha256(mode.encode())
    for path in paths:
        stat = path.stat()
        digest.update(f"{path}\0{stat.st_size}\0{stat.st_mtime_ns}\n".encode())
    base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return base / "bippo" / f"images-{digest.hexdigest()[:32]}.pt"


def _keep(images: Tensor, cache: Path) -> None:
    """Writes atomically; a cache that cannot be written costs time, not the run."""
    try:
        cache.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=cache.parent, suffix=".part", delete=False) as file:
            torch.save(images, file)
        os.replace(file.name, cache)
    except OSError:
        return
