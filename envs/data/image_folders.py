"""Images as ``train/<class>/*`` and ``test/<class>/*``, in a folder or zipped; decoded once, then cached."""

from __future__ import annotations

import hashlib
import io
import os
import tempfile
import zipfile
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from PIL import Image
from torch import Tensor
from torchvision.datasets import ImageFolder
from torchvision.datasets.folder import IMG_EXTENSIONS

_SPLITS = ("train", "test")

#: An image: a file of its own, or a member of a zip archive.
ImagePath = Path | zipfile.Path


class Listing(NamedTuple):
    """The images of one split, and the label of each as an index into ``classes``."""

    paths: list[ImagePath]
    targets: list[int]
    classes: list[str]


def image_folder(roots: list[Path], hint: str = "") -> Path | None:
    """The first root, or folder or zip archive in a root named with ``hint``, that has ``train/`` and ``test/``."""
    for root in roots:
        below = sorted(path for path in root.glob("*") if hint in path.name.lower()) if root.is_dir() else []
        for folder in (root, *below):
            if all((folder / split).is_dir() for split in _SPLITS) or _has_splits(folder):
                return folder
    return None


def _has_splits(archive: Path) -> bool:
    if archive.suffix != ".zip" or not zipfile.is_zipfile(archive):
        return False
    with zipfile.ZipFile(archive) as opened:
        tops = {name.split("/", 1)[0] for name in opened.namelist() if "/" in name}
    return tops.issuperset(_SPLITS)


def read_image_folder(
    folder: Path, mode: str | None = None
) -> tuple[dict[str, tuple[Tensor, Tensor]], tuple[str, ...]]:
    """Reads both splits.

    Args:
        folder: Folder or zip archive of ``train/<class>/*`` and ``test/<class>/*``; all images of one size.
        mode: PIL mode, ``L`` (grey) or ``RGB``; None for grey if the first image is.

    Returns:
        Per split ``uint8[n, channels, height, width]`` images and ``int64[n]`` labels, and the class names, sorted.

    Raises:
        ValueError: If the classes of the splits differ, an image is corrupt or of another size; names the file.
    """
    listings = {split: _listed(folder, split) for split in _SPLITS}
    classes = listings["train"].classes
    if classes != listings["test"].classes:
        odd = sorted(set(classes) ^ set(listings["test"].classes))
        raise ValueError(f"{folder}: train/ and test/ must have the same classes; only one has {', '.join(odd)}")
    mode = mode or _mode(listings["train"].paths[0])
    images = _decoded_or_cached([path for split in _SPLITS for path in listings[split].paths], mode, folder)
    num_train = len(listings["train"].paths)
    pieces = {"train": images[:num_train], "test": images[num_train:]}
    splits = {split: (pieces[split], torch.tensor(listings[split].targets)) for split in _SPLITS}
    return splits, tuple(classes)


def _listed(source: Path, split: str) -> Listing:
    if source.suffix == ".zip":
        return _listed_in_archive(source, split)
    folder = source / split
    try:
        found = ImageFolder(str(folder))
        return Listing([Path(path) for path, _ in found.samples], found.targets, found.classes)
    except (OSError, RuntimeError) as error:
        message = str(error).splitlines()[0]
        raise ValueError(f"{folder}: {message} (expected {folder}/<class>/*.png, .jpg, ...)") from error


def _listed_in_archive(archive: Path, split: str) -> Listing:
    """Same order as of the unzipped folder."""
    root = zipfile.Path(archive)
    names = [name.split("/") for name in root.root.namelist() if name.lower().endswith(IMG_EXTENSIONS)]
    parts = sorted(name for name in names if len(name) >= 3 and name[0] == split)
    if not parts:
        raise ValueError(f"{archive}: no images in {split}/ (expected {split}/<class>/*.png, .jpg, ...)")
    classes = sorted({name[1] for name in parts})
    return Listing([root.joinpath(*name) for name in parts], [classes.index(name[1]) for name in parts], classes)


def _mode(path: ImagePath) -> str:
    with _opened(path) as image:
        return "L" if image.mode in ("1", "L", "I", "I;16") else "RGB"


def _opened(path: ImagePath) -> Image.Image:
    try:
        return Image.open(path) if isinstance(path, Path) else Image.open(io.BytesIO(path.read_bytes()))
    except (OSError, zipfile.BadZipFile) as error:
        raise ValueError(f"corrupt image file {path}; replace or remove it") from error


def _decoded(paths: list[ImagePath], mode: str) -> Tensor:
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


def _pixels(path: ImagePath, mode: str) -> np.ndarray:
    try:
        with _opened(path) as image:
            return np.asarray(image.convert(mode))
    except (OSError, SyntaxError) as error:  # PIL raises SyntaxError for some broken PNG files
        raise ValueError(f"corrupt image file {path}; replace or remove it") from error


def _decoded_or_cached(paths: list[ImagePath], mode: str, source: Path) -> Tensor:
    """Decoding tens of thousands of files takes a minute, reading one large file a second."""
    cache = _cache_path([source] if source.is_file() else [Path(str(path)) for path in paths], mode)
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
    """Keyed by path, size and time of change of every file, or of the archive they are in."""
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
