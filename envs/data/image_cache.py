"""Decoded images, kept on disk: decoding tens of thousands of files takes a minute, reading one large file a second."""

from __future__ import annotations

import hashlib
import os
import tempfile
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

import numpy as np


def cached(paths: Sequence[Path], what: str, num_images: int, decode: Callable[[], np.ndarray]) -> np.ndarray:
    """Returns what ``decode`` returned for the same files before, or else what it returns now.

    Args:
        paths: The files that are decoded, or the archive they are in; known by path, size and time of change.
        what: How they are decoded.
        num_images: How many images come out.
        decode: Returns ``uint8[num_images, channels, height, width]``.
    """
    name = _name(paths, what)
    with suppress(Exception):  # whatever is wrong with a cache file, the images themselves are there
        found = np.load(_folder() / name, allow_pickle=False)
        if found.dtype == np.uint8 and found.ndim == 4 and len(found) == num_images:
            return found
    images = decode()
    with suppress(OSError, RuntimeError):  # a full disk or no home folder: a cache costs time, not the run
        _keep(images, _folder(), name)
    return images


def _folder() -> Path:
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "bippo"


def _name(paths: Sequence[Path], what: str) -> str:
    digest = hashlib.sha256(what.encode())
    for path in paths:
        with suppress(OSError):  # the decoder names it
            stat = path.stat()
            digest.update(os.fsencode(f"{path}\0{stat.st_size}\0{stat.st_mtime_ns}\n"))
    return f"images-{digest.hexdigest()[:32]}.npy"


def _keep(images: np.ndarray, folder: Path, name: str) -> None:
    """Writes the whole file or none; a part of one goes with its folder."""
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder) as part:
        np.save(Path(part) / name, images)
        os.replace(Path(part) / name, folder / name)
