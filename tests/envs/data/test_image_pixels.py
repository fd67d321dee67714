"""Every mode that Pillow reads from files: 8 bits of what is seen, or an error that names the file."""

from __future__ import annotations

import os
import struct
import zlib
from collections.abc import Callable
from pathlib import Path

import numpy as np
import PIL
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


#: Pillow can open a TIFF as YCbCr since version 13.
SINCE_13 = ["YCbCr"] if int(PIL.__version__.partition(".")[0]) >= 13 else []


@pytest.mark.parametrize("mode", ["1", "L", "P", "RGB", "RGBA", "LA", "CMYK", *SINCE_13])
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


#: What each orientation makes of the picture ``ab/cd/ef``, by the EXIF standard.
TURNED = {
    1: "ab/cd/ef",
    2: "ba/dc/fe",
    3: "fe/dc/ba",
    4: "ef/cd/ab",
    5: "ace/bdf",
    6: "eca/fdb",
    7: "fdb/eca",
    8: "bdf/ace",
}


@pytest.mark.parametrize("suffix", ["png", "webp", "tif", "jpg"])
@pytest.mark.parametrize("orientation", TURNED)
def test_pictures_are_turned_as_viewers_show_them(tmp_path, monkeypatch, orientation, suffix):
    """Also where another tag of the EXIF data cannot be written."""
    tag = Image.Exif()
    tag[0x0112] = orientation
    picture = np.array([[0, 50], [100, 150], [200, 250]], dtype=np.uint8)
    blocks = Image.fromarray(picture.repeat(16, axis=0).repeat(16, axis=1))  # JPEG's are of 8x8 or 16x16
    path = saved(blocks, tmp_path / f"x.{suffix}", exif=tag, **({"lossless": True} if suffix == "webp" else {}))
    turned = pixels(path, "L")
    letters = ["".join("abcdef"[round(value / 50)] for value in row) for row in turned[0, 8::16, 8::16]]
    assert "/".join(letters) == TURNED[orientation]
    monkeypatch.setattr(Image.Exif, "tobytes", lambda exif: None + 1)
    assert np.array_equal(pixels(path, "L"), turned)


@pytest.mark.filterwarnings("ignore:Corrupt EXIF data")
@pytest.mark.parametrize("exif", [b"Exif\0\0nothing of the kind", b"Exif\0\0MM\0*\0\0\0\x08\0\x02\1\x12", b""])
def test_a_picture_whose_exif_data_is_damaged_is_read_as_it_lies(tmp_path, exif):
    path = saved(Image.fromarray(SHARES.astype(np.uint8)), tmp_path / "x.png", exif=exif)
    assert pixels(path, "L").shape == (1, 1, 3)


def test_colour_profiles_and_gamma_are_not_applied_and_of_frames_the_first_counts(tmp_path):
    from PIL import ImageCms

    grey = Image.new("L", (1, 1), 100)
    profile = ImageCms.ImageCmsProfile(ImageCms.createProfile("LAB")).tobytes()
    assert pixels(saved(grey, tmp_path / "x.png", icc_profile=profile), "L").tolist() == [[[100]]]
    content = (tmp_path / "x.png").read_bytes()
    gamma = b"gAMA" + struct.pack(">I", 100_000)
    at = content.index(b"iCCP") - 4
    (tmp_path / "g.png").write_bytes(
        content[:at] + struct.pack(">I", 4) + gamma + struct.pack(">I", zlib.crc32(gamma)) + content[at:]
    )
    assert pixels(tmp_path / "g.png", "L").tolist() == [[[100]]]
    for suffix in ("gif", "webp", "png"):
        frames = {"save_all": True, "append_images": [Image.new("L", (1, 1), 200)], "lossless": True}
        assert pixels(saved(grey, tmp_path / f"a.{suffix}", **frames), "L").tolist() == [[[100]]]


def test_a_giant_is_refused_before_it_is_decoded(tmp_path):
    path = saved(Image.new("1", (4097, 4096)), tmp_path / "x.png")
    for read in (is_grey, lambda file: pixels(file, "L")):
        with pytest.raises(ValueError, match=r"x\.png: it has 4097x4096 pixels"):
            read(path)
    assert pixels(saved(Image.new("1", (4096, 4096)), path), "L").shape == (1, 4096, 4096)


def cut_pgm(path: Path) -> None:
    path.write_bytes(b"P5\n8 8\n25")  # Pillow: ValueError


def postscript(path: Path) -> None:
    """Its reader runs programs."""
    path.write_bytes(b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 8 8\n%%EndComments\n%%EOF\n")


def three_pages(path: Path) -> None:
    page = Image.new("L", (2, 2))
    page.save(path, "TIFF", save_all=True, append_images=[page, page])


def tiff_of(dtype: type) -> Callable[[Path], None]:
    return lambda path: Image.fromarray(SHARES.astype(dtype)).save(path, "TIFF")


def bmp_of_a_giant(path: Path) -> None:
    Image.new("RGB", (8, 8)).save(path, "BMP")
    content = bytearray(path.read_bytes())
    content[18:26] = struct.pack("<2i", 2**30, 2**30)
    path.write_bytes(content)  # Pillow: DecompressionBombError


def png_without_pixels(path: Path) -> None:
    Image.new("RGB", (8, 8)).save(path, "PNG")
    content = path.read_bytes()
    path.write_bytes(content[: content.index(b"IDAT") + 4] + b"nothing of the kind")  # Pillow: SyntaxError


@pytest.mark.parametrize(
    ("damage", "why"),
    [
        *((damage, "") for damage in (cut_pgm, bmp_of_a_giant, png_without_pixels, Path.touch, Path.mkdir)),
        (postscript, "it is no image, or not a whole one"),
        (three_pages, "it has 3 pages"),
        *((tiff_of(np.int32), "32-bit integers"), (tiff_of(np.float32), "32-bit floats")),
        *([(os.mkfifo, "it is no regular file")] if hasattr(os, "mkfifo") else []),
    ],
)
def test_what_is_no_image_that_can_be_read_is_named(tmp_path, damage, why):
    damage(tmp_path / "x")
    with pytest.raises(ValueError, match=f"{tmp_path / 'x'}: .*{why}") as error:
        pixels(tmp_path / "x", "RGB")
    assert "\n" not in str(error.value)
