"""Folders and archives of images as systems and programs leave them behind."""

from __future__ import annotations

import io
import os
import shutil
import zipfile
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from tiny_data import write_image_folders

from envs.data import datasets, image_folders
from envs.data.image_folders import read_image_folder
from envs.data.image_tree import image_trees


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def images_in(root: Path, mode: str | None = None):
    """Training images and classes of the only tree at ``root``."""
    (tree,) = image_trees(root)
    splits, classes = read_image_folder(tree, mode)
    return splits["train"][0], classes


def zipped(folder: Path, archive: Path, rename=lambda name: name) -> Path:
    """An archive of ``folder`` in which ``rename`` gives the names."""
    with zipfile.ZipFile(archive, "w") as opened:
        for path in sorted(path for path in folder.rglob("*") if path.is_file()):
            opened.writestr(rename(path.relative_to(folder).as_posix()), path.read_bytes())
    return archive


@pytest.fixture
def plain(tmp_path):
    """Three classes of images, and what is read from them."""
    folder = write_image_folders(tmp_path / "plain", classes=3, per_class=2, size=8)
    return folder, images_in(folder)


def is_same(found, expected) -> bool:
    return np.array_equal(found[0], expected[0]) and found[1] == expected[1]


@pytest.mark.parametrize("in_zip", [True, False])
def test_files_that_systems_keep_for_themselves_are_no_images(tmp_path, plain, in_zip):
    folder, expected = plain
    for split in ("train", "test"):
        for place in (".ipynb_checkpoints", "__MACOSX", "class_0/.thumbnails", "class_0/__MACOSX"):
            (folder / split / place).mkdir()
            shutil.copy(folder / split / "class_0" / "0000.png", folder / split / place / "0.png")
        (folder / split / "class_1" / "._0001.png").write_bytes(b"resource fork")
    (folder / "__MACOSX" / "train" / "class_0").mkdir(parents=True)
    (folder / "__MACOSX" / "train" / "class_0" / "._0000.png").write_bytes(b"resource fork")
    source = zipped(folder, tmp_path / "x.zip") if in_zip else folder
    assert is_same(images_in(source), expected)


@pytest.mark.parametrize(
    "rename",
    [
        lambda name: f"./{name}",
        lambda name: f"pets/{name}",
        lambda name: name.replace("/", "\\"),
        lambda name: f"pets/{name}".replace("train", "Train").replace("test", "TEST"),
    ],
    ids=["dot", "folder", "backslash", "case"],
)
def test_archives_of_other_programs(tmp_path, plain, rename):
    folder, expected = plain
    (tmp_path / "data").mkdir()
    archive = zipped(folder, tmp_path / "data" / "x.ZIP", rename)
    assert is_same(images_in(archive), expected) and is_same(images_in(tmp_path / "data"), expected)
    (folder / "train").rename(folder / "Train")
    assert is_same(images_in(folder), expected)


def test_folders_in_a_class_have_one_order_zipped_or_not(tmp_path, plain):
    folder, _ = plain
    for split in ("train", "test"):
        for place, value in (("class_1/b", 9), ("class_1/a/c", 8), ("class_1/a-b", 7)):
            (folder / split / place).mkdir(parents=True)
            Image.new("RGB", (8, 8), (value, 0, 0)).save(folder / split / place / "0.PNG")
    found = images_in(folder)
    # As torchvision's ImageFolder: what lies in the class itself, then its folders by the text of their paths.
    assert found[0][4:7, 0, 0, 0].tolist() == [7, 8, 9] and len(found[0]) == 9
    assert is_same(images_in(zipped(folder, tmp_path / "x.zip")), found)


@pytest.mark.parametrize("in_zip", [True, False])
def test_all_classes_without_images_are_named_at_once(tmp_path, plain, in_zip):
    folder, _ = plain
    for place in ("train/class_8", "train/class_9", "test/class_9"):
        (folder / place).mkdir()
        (folder / place / "0.heic").write_bytes(b"of a telephone")
    source = zipped(folder, tmp_path / "x.zip") if in_zip else folder
    with pytest.raises(ValueError, match=rf"{source}/train for class_8, class_9, and .*{source}/test for class_9"):
        images_in(source)
    with pytest.raises(ValueError, match="has one class, class_0"):
        images_in(write_image_folders(tmp_path / "one", classes=1))


def test_links_are_followed_and_a_circle_of_them_is_named(tmp_path, plain):
    folder, expected = plain
    (folder / "train" / "class_0").rename(tmp_path / "elsewhere")
    (folder / "train" / "class_0").symlink_to(tmp_path / "elsewhere")
    assert is_same(images_in(folder), expected)
    (tmp_path / "other").mkdir()
    (tmp_path / "elsewhere" / "a").symlink_to(tmp_path / "other")
    (tmp_path / "other" / "b").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(ValueError, match=r"class_0/a/b is a link to a folder around it.*; remove it$"):
        images_in(folder)


def test_of_two_images_with_one_name_in_an_archive_the_last_counts(tmp_path, plain):
    folder, expected = plain
    archive = zipped(folder, tmp_path / "x.zip")
    buffer = io.BytesIO()
    Image.new("RGB", (8, 8), (9, 9, 9)).save(buffer, "PNG")
    with zipfile.ZipFile(archive, "a") as opened, pytest.warns(UserWarning, match="Duplicate name"):
        opened.writestr("train/class_0/0000.png", buffer.getvalue())
    images, _ = images_in(archive)
    assert (images[0] == 9).all() and np.array_equal(images[1:], expected[0][1:])


def test_colour_is_kept_unless_all_images_are_grey(plain):
    folder, expected = plain
    Image.new("L", (8, 8), 77).save(folder / "train" / "class_0" / "0000.png")
    images, _ = images_in(folder)
    assert (images[0] == 77).all() and np.array_equal(images[1:], expected[0][1:])
    for path in folder.rglob("*.png"):
        Image.new("L", (8, 8), 77).save(path)
    assert images_in(folder)[0].shape == (6, 1, 8, 8)


def test_an_encrypted_archive_is_named(tmp_path, plain):
    archive = zipped(plain[0], tmp_path / "x.zip")
    content = archive.read_bytes()
    for signature, flags in ((b"PK\1\2", 8), (b"PK\3\4", 6)):  # bit 0 of the flags says that a member is encrypted
        pieces = content.split(signature)
        content = signature.join([pieces[0], *(p[: flags - 4] + b"\1" + p[flags - 3 :] for p in pieces[1:])])
    archive.write_bytes(content)
    with pytest.raises(ValueError, match=f"cannot read {archive}/train/class_0/0000.png: .*encrypted"):
        images_in(archive)


@pytest.mark.parametrize("name", ["a\nb.png", "\x1b[2J.png", os.fsdecode(b"\xff.png")])
def test_whatever_a_file_is_called_the_error_is_one_line_that_can_be_printed(tmp_path, plain, name):
    folder, _ = plain
    odd = folder / "train" / "class_2" / name
    shutil.copy(folder / "train" / "class_2" / "0002.png", odd)
    assert datasets.load_dataset("image_folder", folder).train_inputs.shape[0] == 7
    odd.write_bytes(b"no image")
    datasets._load.cache_clear()
    with pytest.raises(ValueError, match=r"cannot read .*train/class_2/.*png: it is no image") as error:
        datasets.load_dataset("image_folder", folder)
    assert str(error.value).isprintable()


def test_images_beyond_the_memory_are_refused_before_it_is_taken(tmp_path, plain, monkeypatch):
    monkeypatch.setattr(image_folders, "_memory_bytes", lambda: 12 * 8 * 8 * 3 - 1)
    for path in (tmp_path / "cache").rglob("*.npy"):
        path.unlink()
    with pytest.raises(ValueError, match=r"^12 images of 8x8 pixels take 2\.15e-06 GiB, more memory than this machine"):
        images_in(plain[0])
