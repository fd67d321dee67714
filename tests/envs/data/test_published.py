"""Data sets whose files have the same names are distinguished."""

from __future__ import annotations

import hashlib
import logging
import pickle
import re
from pathlib import Path

import pytest
from tiny_data import (
    cifar_md5,
    labels,
    pack_cifar_batches,
    publish,
    write_cifar_batches,
    write_idx,
    write_image_folders,
)

from envs.data import datasets
from envs.data.idx_files import read_idx


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    yield
    datasets._load.cache_clear()


def refused(name, folder, message):
    with pytest.raises(ValueError, match=message):
        datasets.load_dataset(name, folder)


@pytest.fixture(scope="module")
def published():
    """The module, with torchvision, which takes seconds to import."""
    from envs.data import published

    return published


@pytest.mark.parametrize("zipped", [True, False])
@pytest.mark.parametrize("folder", ["MNIST/raw", "KMNIST/raw", "kmnist", "EMNIST/raw", "QMNIST"])
def test_another_data_sets_folder_is_passed_over(tmp_path, folder, zipped):
    write_idx(tmp_path / folder, zipped=zipped)
    for root in (tmp_path, tmp_path / folder):
        refused("fashion_mnist", root, f"no fashion_mnist data found.*{folder.split('/')[0]}.* holds another")
    write_idx(tmp_path / "z" / "raw", per_class=7)
    assert len(datasets.load_dataset("fashion_mnist", tmp_path / "z").train_labels) == 70


@pytest.mark.parametrize("zipped", [True, False])
def test_another_data_set_is_known_by_its_labels(published, tmp_path, monkeypatch, zipped):
    md5 = read_idx(write_idx(tmp_path / "data", zipped=zipped)).md5
    monkeypatch.setitem(published._OTHER_LABELS, md5["train-labels-idx1-ubyte"], "KMNIST")
    refused("fashion_mnist", tmp_path, f"{tmp_path / 'data'} holds KMNIST")


def test_sums_are_of_the_unpacked_file(published, tmp_path):
    from torchvision.datasets import CIFAR10

    plain, packed = (read_idx(write_idx(tmp_path / str(zipped), zipped=zipped)).md5 for zipped in (False, True))
    name = "t10k-labels-idx1-ubyte"
    assert plain == packed and plain[name] == hashlib.md5((tmp_path / "False" / name).read_bytes()).hexdigest()
    assert published.PUBLISHED["fashion_mnist"].md5.keys() == plain.keys()
    of_batches = cifar_md5(write_cifar_batches(tmp_path / "cifar"))
    assert published.PUBLISHED["cifar10"].md5.keys() == of_batches.keys() and CIFAR10.test_list[0][0] in of_batches


def test_unknown_idx_files_are_taken_with_a_warning_that_names_them(tmp_path, monkeypatch, caplog):
    md5 = read_idx(write_idx(tmp_path)).md5
    changed = sorted(md5)[0]
    with caplog.at_level(logging.WARNING):
        publish(monkeypatch, "fashion_mnist", dict(md5))
        datasets.load_dataset("fashion_mnist", tmp_path)
        assert not caplog.messages
        publish(monkeypatch, "fashion_mnist", {**md5, changed: "another"})
        datasets._load.cache_clear()
        datasets.load_dataset("fashion_mnist", tmp_path)
    (message,) = caplog.messages
    assert f": {changed} differ" in message and str(tmp_path) in message


class RunsCode:
    """A pickle of it calls a function as soon as it is read."""

    def __init__(self, path):
        self._path = path

    def __reduce__(self):
        return Path.touch, (self._path,)


@pytest.mark.parametrize("archive", [True, False])
def test_no_batch_is_unpickled_but_those_that_were_published(tmp_path, monkeypatch, archive):
    root, ran = write_cifar_batches(tmp_path / "data"), tmp_path / "ran"
    publish(monkeypatch, "cifar10", cifar_md5(root))
    batch = root / "cifar-10-batches-py" / "data_batch_2"
    batch.write_bytes(pickle.dumps(RunsCode(ran)))
    if archive:
        pack_cifar_batches(root)
    with pytest.raises(ValueError, match=r"data_batch_2: its md5 is \w+, that of the published file \w+;") as error:
        datasets.load_dataset("cifar10", root)
    assert not ran.exists() and str(error.value).endswith("; download it again")


def test_cifar100_is_no_cifar10(tmp_path):
    (tmp_path / "cifar-100-python").mkdir()
    refused("cifar10", tmp_path, "cifar-100-python holds another data set")
    write_image_folders(tmp_path / "cifar100_png", classes=12)
    write_image_folders(tmp_path / "cifar10_png")
    assert len(datasets.load_dataset("cifar10", tmp_path).classes) == 10
    refused("cifar10", tmp_path / "cifar100_png", "has 12 classes, CIFAR-10 has 10")
    refused("image_folder", tmp_path, "several folders .*: cifar100_png, cifar10_png|cifar10_png, cifar100_png")
    assert len(datasets.load_dataset("image_folder", tmp_path / "cifar100_png").classes) == 12


@pytest.mark.parametrize(("name", "size", "found"), [("cifar10", 96, "(3, 96, 96)"), ("fashion_mnist", 32, "(1, 32,")])
def test_images_of_another_size_are_another_data_set(tmp_path, name, size, found):
    write_image_folders(tmp_path, size=size)
    refused(name, tmp_path, f"images of shape {re.escape(found)}")


def test_folders_of_other_classes_are_taken_with_a_warning(published, tmp_path, caplog):
    write_image_folders(tmp_path)
    datasets.load_dataset("cifar10", tmp_path)
    assert "taken for CIFAR-10 without being known as such: its classes are class_0" in caplog.text
    for split in ("train", "test"):
        for number, name in enumerate(published.PUBLISHED["cifar10"].classes):
            (tmp_path / split / f"class_{number}").rename(tmp_path / split / name)
    caplog.clear()
    datasets._load.cache_clear()
    datasets.load_dataset("cifar10", tmp_path)
    assert not caplog.messages


def test_labels_beyond_the_classes_are_refused(tmp_path, monkeypatch):
    monkeypatch.setattr("tiny_data.labels", lambda per_class: labels(per_class, 13))
    write_idx(tmp_path)
    refused("fashion_mnist", tmp_path, "fashion_mnist: train must hold labels from 0 to 9")
