"""Reads ``train/<class>/*`` and ``test/<class>/*`` of a folder or zip archive; decoded once, then cached."""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from envs.data.image_cache import cached
from envs.data.image_pixels import HOW, is_grey, pixels
from envs.data.image_tree import SPLITS, ImageTree
from envs.data.original_files import Split
from envs.data.whole_files import Openable


def read_image_folder(tree: ImageTree, mode: str | None = None) -> tuple[dict[str, Split], tuple[str, ...]]:
    """Reads both splits.

    Args:
        tree: Where the images are; all of one size.
        mode: ``L`` (grey) or ``RGB``; None for grey if all images are.

    Returns:
        Per split ``uint8[n, channels, height, width]`` images and ``int64[n]`` labels, and the class names, sorted.

    Raises:
        ValueError: If the splits differ in their classes or have one only, or an image cannot be read or is of another
            size; names the file. Also if the images do not fit into the memory of this machine.
    """
    listings = tree.listings()
    classes = listings["train"].classes
    if classes != listings["test"].classes:
        odd = sorted(set(classes) ^ set(listings["test"].classes))
        raise ValueError(f"{tree.source}: train/ and test/ must have the same classes; only one has {', '.join(odd)}")
    if len(classes) < 2:
        raise ValueError(f"{tree.source} has one class, {classes[0]}; expected a folder for each of two or more")
    files = [file for split in SPLITS for file in listings[split].files]
    on_disk = [tree.source] if tree.source.is_file() else [Path(str(file)) for file in files]
    images = cached(on_disk, f"{mode or 'grey if all are'}; {HOW}", len(files), lambda: _decoded(files, mode))
    pieces = zip(SPLITS, np.split(images, [len(listings["train"].files)]), strict=True)
    return {split: (piece, np.array(listings[split].targets)) for split, piece in pieces}, tuple(classes)


def _decoded(files: Sequence[Openable], mode: str | None) -> np.ndarray:
    mode = mode or ("L" if all(map(is_grey, files)) else "RGB")
    first = pixels(files[0], mode)
    images = _room_for(len(files), first)
    for place, file in enumerate(files):
        image = pixels(file, mode)
        if image.shape != first.shape:
            raise ValueError(
                f"{file} has {_size(image)} pixels, {files[0]} has {_size(first)}; all images must have one size, "
                f"resize them"
            )
        images[place] = image
    return images


def _room_for(num_images: int, first: np.ndarray) -> np.ndarray:
    num_bytes = num_images * first.size
    if num_bytes > _memory_bytes():
        raise ValueError(
            f"{num_images} images of {_size(first)} pixels take {num_bytes / 2**30:.3g} GiB, more memory than this "
            "machine has; resize them, or use fewer"
        )
    return np.empty((num_images, *first.shape), dtype=np.uint8)


def _memory_bytes() -> float:
    """What the machine has, in use or not; infinite where the system does not say."""
    names = ("SC_PHYS_PAGES", "SC_PAGE_SIZE")
    return math.prod(map(os.sysconf, names)) if hasattr(os, "sysconf") else math.inf


def _size(image: np.ndarray) -> str:
    _, height, width = image.shape
    return f"{width}x{height}"
