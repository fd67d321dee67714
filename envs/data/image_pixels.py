"""One image file as 8-bit pixels, whatever mode it has."""

from __future__ import annotations

import io
from typing import Protocol

import numpy as np
from PIL import Image, UnidentifiedImageError

from envs.data.read_errors import reading

_ADVICE = "replace or remove it"
#: Formats whose grey images with more than 8 bits Pillow scales to the range of 16, whichever mode it gives them.
_SIXTEEN_BIT_FORMATS = ("PNG", "PPM")


class ImageFile(Protocol):
    """A file in a folder or in an archive; as text it is its path."""

    def read_bytes(self) -> bytes:
        """Returns what is in it."""


def is_grey(file: ImageFile) -> bool:
    """Whether it has no colours; decodes none of them.

    Raises:
        ValueError: If it is no image; names it.
    """
    with reading(file, _ADVICE), _opened(file) as image:
        return Image.getmodebase(image.mode) == "L"


def pixels(file: ImageFile, mode: str) -> np.ndarray:
    """Decodes an image as ``L`` (grey) or ``RGB``: 16 bits are scaled to 8, what is transparent is laid over white.

    Returns:
        ``uint8[channels, height, width]``.

    Raises:
        ValueError: If it is damaged or has several pages or pixels without a known range (floats, 32 bits); names it.
    """
    with reading(file, _ADVICE), _opened(file) as image:
        return np.atleast_3d(np.asarray(_with_8_bits(image).convert(mode))).transpose(2, 0, 1)


def _opened(file: ImageFile) -> Image.Image:
    try:
        return Image.open(io.BytesIO(file.read_bytes()))
    except UnidentifiedImageError:
        raise ValueError("it is no image, or not a whole one") from None


def _with_8_bits(image: Image.Image) -> Image.Image:
    """In a mode whose bands have 8 bits.

    ``convert`` alone would cut off what is above 255, and show colours that are hidden by transparency.
    """
    if image.format == "TIFF" and (pages := getattr(image, "n_frames", 1)) > 1:
        raise ValueError(f"it has {pages} pages; expected one")
    if image.mode.startswith("I;16") or (image.mode == "I" and image.format in _SIXTEEN_BIT_FORMATS):
        values = np.asarray(image).astype(np.uint32)
        return Image.fromarray(((values + 128) // 257).astype(np.uint8))
    if image.mode in ("I", "F"):
        kind = "integers" if image.mode == "I" else "floats"
        raise ValueError(f"its pixels are 32-bit {kind}, whose range is not known; expected 8 or 16 bits")
    if image.has_transparency_data:
        overlaid = image.convert("RGBA")
        return Image.alpha_composite(Image.new("RGBA", overlaid.size, "white"), overlaid)
    return image
