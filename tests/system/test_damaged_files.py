"""Files of all kinds with bytes changed at random: each is read or refused in one line."""

from __future__ import annotations

import gzip
import io
import random
import resource
import struct
import zipfile
from functools import partial

import pytest
from PIL import Image
from tiny_data import labels, pixels, publish_cifar_batches, write_idx

from envs.config import FederationConfig
from envs.data import datasets

#: What headers, archives and tables are sensitive to.
_PIECES = (b"\0", b"\xff" * 4, b"\x3b\x9a\xca\0", b"9" * 30, b"\n", b'"', b",", b"PK\1\2", b"PK\3\4")
_SIZES = (0, 1, 10**9, 2**31, 2**32 - 1)


def damaged(content: bytes, rng: random.Random) -> bytes:
    """A copy with one to eight changes, more of them near its ends, where headers and tables are."""
    changed = bytearray(content)
    for _ in range(rng.choice((1, 1, 2, 8))):
        near = min(64, len(changed))
        at = rng.choice(
            (rng.randrange(len(changed) + 1), rng.randrange(near + 1), len(changed) - rng.randrange(near + 1))
        )
        piece = rng.choice((*_PIECES, *(struct.pack(order + "I", size) for order in "<>" for size in _SIZES)))
        kind = rng.randrange(4)
        if kind == 0:
            changed[at : at + len(piece)] = piece
        elif kind == 1:
            changed[at:at] = piece * rng.choice((1, 1000))
        elif kind == 2:
            del changed[at : at + rng.choice((1, 4, 30, len(changed)))]
        else:
            changed[at : at + 1] = bytes([rng.randrange(256)])
    return bytes(changed)


def archive_of(form: str, **options: object) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for split in ("train", "test"):
            for label, image in zip(labels(1, 2), pixels(labels(1, 2), 8, 3), strict=True):
                file = io.BytesIO()
                Image.fromarray(image).save(file, form, **options)
                archive.writestr(f"{split}/{label}/0.png", file.getvalue())
    return buffer.getvalue()


def repacked(archive: bytes, rng: random.Random) -> bytes:
    """An archive in order with a damaged image."""
    with zipfile.ZipFile(io.BytesIO(archive)) as opened:
        files = {name: opened.read(name) for name in opened.namelist()}
    files["train/0/0.png"] = damaged(files["train/0/0.png"], rng)
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as opened:
        for name, content in files.items():
            opened.writestr(name, content)
    return buffer.getvalue()


def trace(root, monkeypatch):
    path = root / "trace.csv"
    content = b"client,join_round,leave_round\n0,0,150\n3,100,\n0,180,\n1,0,7\n"
    return path, partial(damaged, content), lambda: FederationConfig(num_clients=5, churn_trace=str(path))


def gzipped(path):
    """Damages what is packed, or how it is packed."""
    packed = path.read_bytes()
    plain = gzip.decompress(packed)
    return lambda rng: damaged(packed, rng) if rng.random() < 0.5 else gzip.compress(damaged(plain, rng), 1)


def idx(root, monkeypatch):
    path = write_idx(root, per_class=1) / "train-images-idx3-ubyte.gz"
    return path, gzipped(path), lambda: datasets.load_dataset("fashion_mnist", root)


def cifar_batch(root, monkeypatch):
    path = publish_cifar_batches(monkeypatch, root, per_class=1) / "cifar-10-batches-py" / "test_batch"
    return path, partial(damaged, path.read_bytes()), lambda: datasets.load_dataset("cifar10", root)


def cifar_archive(root, monkeypatch):
    path = publish_cifar_batches(monkeypatch, root, per_class=1, archive=True) / "cifar-10-python.tar.gz"
    return path, gzipped(path), lambda: datasets.load_dataset("cifar10", root)


def images(root, monkeypatch):
    tag = Image.Exif()
    tag[0x0112] = 6
    archives = [archive_of(form) for form in ("WEBP", "BMP", "TIFF", "PPM", "GIF")]
    archives += [archive_of(form, exif=tag) for form in ("PNG", "JPEG")]

    def make(rng):
        return rng.choice((damaged, repacked))(rng.choice(archives), rng)

    return root / "x.zip", make, lambda: datasets.load_dataset("image_folder", root / "x.zip")


def cache(root, monkeypatch):
    (root / "x.zip").write_bytes(archive_of("PNG"))
    datasets.load_dataset("image_folder", root / "x.zip")
    (path,) = (root.parent / "cache" / "bippo").iterdir()
    return path, partial(damaged, path.read_bytes()), lambda: datasets.load_dataset("image_folder", root / "x.zip")


@pytest.mark.filterwarnings("ignore")  # Pillow's, of what it passes over
@pytest.mark.parametrize("kind", [trace, idx, cifar_batch, cifar_archive, images, cache])
def test_a_damaged_file_is_read_or_refused_in_one_line_and_little_memory(tmp_path, monkeypatch, kind):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    (tmp_path / "data").mkdir()
    path, make, load = kind(tmp_path / "data", monkeypatch)
    before_kib, refused = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, 0
    for seed in range(100):
        path.write_bytes(make(random.Random(seed)))
        datasets._load.cache_clear()
        try:
            load()
        except ValueError as error:
            refused += 1
            assert type(error) is ValueError and str(error).isprintable() and len(str(error)) < 1000, (seed, error)
        except Exception as error:
            pytest.fail(f"seed {seed}: {type(error).__name__}: {error}")
    datasets._load.cache_clear()
    assert (refused == 0) == (kind is cache)  # what is wrong with a cache is no matter
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before_kib < 2**19
