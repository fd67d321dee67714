"""Every mode that Pillow reads from files: 8 bits of what is seen, or an error that names the file."""

from __future__ import annotations

import struct
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from envs.data.image_pixels import is_grey, pixels

#: Black, a mid grey and white, as shares of the range of a type.
SHARES = np.array([[0.0, 0.5, 1.0]])


def saved(image: Image.Image, path: Path, **options: object) -> Path:
    image.save(path, **options)
    return path


@pytest.mark.parametrize("mode", ["L", "RGB"])
@pytest.mark.parametrize("suffix", ["png", "tif", "pgm"])
def test_16_bits_are_scaled_to_8(tmp_path, suffix, mode):
    path = saved(Image.fromarray(np.rint(SHARES * 65535).astype(np.uint16)), tmp_path / f"x.{suffix}")
    assert is_grey(path)
    assert (pixels(path, mode) == [0, 128, 255]).all() and pixels(path, mode).dtype == np.uint8


def test_16_bits_big_endian_and_12_bits_of_pgm_are_scaled(tmp_path):
    tiff, pgm = tmp_path / "x.tif", tmp_path / "x.pgm"
    Image.fromarray(np.rint(SHARES * 65535).astype(">u2")).save(tiff)
    pgm.write_bytes(b"P5\n3 1\n4095\n" + struct.pack(">3H", 0, 2048, 4095))
    with Image.open(tiff) as opened:
        assert opened.mode == "I;16B"
    assert pixels(tiff, "L").tolist() == pixels(pgm, "L").tolist() == [[[0, 128, 255]]]


@pytest.mark.parametrize(("dtype", "kind"), [(np.int32, "integers"), (np.float32, "floats")])
def test_pixels_without_a_known_range_are_refused(tmp_path, dtype, kind):
    path = saved(Image.fromarray(SHARES.astype(dtype)), tmp_path / "x.tif")
    with pytest.raises(ValueError, match=f"{path}: its pixels are 32-bit {kind}, whose range is not known"):
        pixels(path, "L")


@pytest.mark.parametrize("mode", ["1", "L", "P", "RGB", "RGBA", "LA", "CMYK", "YCbCr"])
def test_colours_are_what_is_seen(tmp_path, mode):
    seen = Image.fromarray(np.array([[[0] * 3, [255] * 3]], dtype=np.uint8))
    path = saved(seen.convert(mode), tmp_path / "x.tif", **({"compression": None} if mode == "YCbCr" else {}))
    with Image.open(path) as opened:
        assert opened.mode == mode
    assert pixels(path, "RGB").tolist() == [[[0, 255]]] * 3
    assert is_grey(path) == (mode in ("1", "L", "LA"))


def palette(colour: tuple[int, int, int]) -> Image.Image:
    image = Image.new("P", (1, 1))
    image.putpalette(colour)
    return image


@pytest.mark.parametrize(
    ("image", "options"),
    [
        (Image.new("RGBA", (1, 1), (9, 9, 9, 0)), {}),
        (Image.new("LA", (1, 1), (9, 0)), {}),
        (palette((9, 9, 9)), {"transparency": 0}),
        (Image.new("L", (1, 1), 9), {"transparency": 9}),
        (Image.new("RGB", (1, 1), (9, 9, 9)), {"transparency": (9, 9, 9)}),
    ],
)
def test_what_is_transparent_is_laid_over_white(tmp_path, image, options):
    path = saved(image, tmp_path / "x.png", **options)
    assert pixels(path, "L").tolist() == [[[255]]] and pixels(path, "RGB").tolist() == [[[255]]] * 3


def test_several_pages_are_refused(tmp_path):
    page = Image.new("L", (2, 2))
    path = saved(page, tmp_path / "x.tif", save_all=True, append_images=[page, page])
    with pytest.raises(ValueError, match=f"{path}: it has 3 pages; expected one"):
        pixels(path, "L")


def cut_pgm(path: Path) -> None:
    path.write_bytes(b"P5\n8 8\n25")  # Pillow: ValueError


def bmp_of_a_giant(path: Path) -> None:
    Image.new("RGB", (8, 8)).save(path, "BMP")
    content = bytearray(path.read_bytes())
    content[18:26] = struct.pack("<2i", 2**30, 2**30)
    path.write_bytes(content)  # Pillow: DecompressionBombError


def png_without_pixels(path: Path) -> None:
    Image.new("RGB", (8, 8)).save(path, "PNG")
    content = path.read_bytes()
    path.write_bytes(content[: content.index(b"IDAT") + 4] + b"nothing of the kind")  # Pillow: SyntaxError


@pytest.mark.parametrize("damage", [cut_pgm, bmp_of_a_giant, png_without_pixels, Path.touch, Path.mkdir])
def test_whatever_pillow_raises_names_the_file(tmp_path, damage):
    damage(tmp_path / "x")
    with pytest.raises(ValueError, match=f"cannot read {tmp_path / 'x'}: .+; replace or remove it") as error:
        pixels(tmp_path / "x", "RGB")
    assert "\n" not in str(error.value)
