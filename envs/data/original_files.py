"""Helpers of the readers of published data sets: where files may lie, and how they are distinguished."""

from __future__ import annotations

import hashlib
from pathlib import Path

import numpy as np

from envs.data.image_tree import is_visible

#: ``uint8[n, channels, height, width]`` images and ``int64[n]`` labels.
Split = tuple[np.ndarray, np.ndarray]

#: What helps against a damaged file.
ADVICE = "download it again"


def folders_of(root: Path) -> list[Path]:
    """Returns ``root``, its folders and theirs, in the order of their names.

    Those in ``train`` and ``test`` are left out: each holds the images of a class.
    """
    below = _folders_in(root)
    deeper = [path for folder in below if folder.name not in ("train", "test") for path in _folders_in(folder)]
    return [root, *below, *deeper]


def md5_of(content: bytearray) -> str:
    """Returns the sum by which a published file is known."""
    return hashlib.md5(content, usedforsecurity=False).hexdigest()


def _folders_in(folder: Path) -> list[Path]:
    return sorted(path for path in folder.glob("*") if path.is_dir() and is_visible(path.name))
