"""One image file as 8-bit pixels, whatever mode it has."""

from __future__ import annotations

import io
from contextlib import suppress

import numpy as np
from PIL import Image, ImageOps, UnidentifiedImageError

from envs.data.read_errors import reading
from envs.data.whole_files import Openable, read_whole

#: 4096 x 4096, far more than a network here learns from; a file of a few bytes may claim any number.
MAX_PIXELS = 2**24
#: What ``pixels`` makes of a file. Another text for another way, as decoded images are kept under it.
HOW = "upright, 8 bits, over white"

_ADVICE = "replace or remove it"
#: Those of the endings that are looked for, and GIF; others run programs (EPS) or are rarely tried on damaged files.
_FORMATS = ("BMP", "GIF", "JPEG", "PNG", "PPM", "TIFF", "WEBP")
#: Formats whose grey images with more than 8 bits Pillow scales to the range of 16, whichever mode it gives them.
_SIXTEEN_BIT_FORMATS = ("PNG", "PPM")


def is_grey(file: Openable) -> bool:
    """Returns whether an image has no colours; decodes none of its pixels.

    Raises:
        ValueError: If it is no image; names it.
    """
    with reading(file, _ADVICE), _opened(file) as image:
        return Image.getmodebase(image.mode) == "L"


def pixels(file: Openable, mode: str) -> np.ndarray:
    """Decodes an image as ``L`` (grey) or ``RGB``, as viewers show it.

    It is turned as its EXIF or XMP orientation says, 16 bits are scaled to 8, and what is transparent is laid over
    white. Colour profiles and gamma are not applied; of several frames, the first one counts.

    Returns:
        ``uint8[channels, height, width]``.

    Raises:
        ValueError: If it is damaged, has several pages or pixels without a known range (floats, 32 bits), or more than
            ``MAX_PIXELS`` of them; names it.
    """
    with reading(file, _ADVICE), _opened(file) as image:
        _turn_upright(image)
        return np.atleast_3d(np.asarray(_with_8_bits(image).convert(mode))).transpose(2, 0, 1)


def _opened(file: Openable) -> Image.Image:
    try:
        image = Image.open(io.BytesIO(read_whole(file)), formats=_FORMATS)
    except UnidentifiedImageError:
        raise ValueError("it is no image, or not a whole one") from None
    if image.width * image.height > MAX_PIXELS:
        raise ValueError(f"it has {image.width}x{image.height} pixels; expected at most {MAX_PIXELS:,} of them")
    return image


def _turn_upright(image: Image.Image) -> None:
    """In place, so that a picture is also turned where the rest of its EXIF data cannot be written anew."""
    image.load()
    with suppress(Exception):  # viewers, too, show a picture whose EXIF data is damaged
        ImageOps.exif_transpose(image, in_place=True)


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
