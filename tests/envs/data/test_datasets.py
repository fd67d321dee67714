"""Every data layout on tiny generated files, and one clear line for what is missing or broken."""

from __future__ import annotations

import gzip
import io
import resource
import shutil
import tarfile
import zipfile
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from tiny_data import labels, pixels, publish_cifar_batches, write_idx, write_image_folders

from envs import FederationConfig
from envs.data import datasets, image_folders, whole_files
from envs.data.client_samples import ResidentSamples, Samples


@pytest.fixture(autouse=True)
def own_cache_and_no_data(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("BIPPO_DATA", raising=False)
    yield
    datasets._load.cache_clear()


def check(dataset, channels, size, num_train, num_test):
    assert dataset.train_inputs.shape == (num_train, channels, size, size)
    assert dataset.test_inputs.shape == (num_test, channels, size, size)
    assert dataset.input_shape == (channels, size, size)
    for images, label in ((dataset.train_inputs, dataset.train_labels), (dataset.test_inputs, dataset.test_labels)):
        assert images.dtype == torch.uint8 and label.dtype == torch.int64
        # tiny_data makes rows 2 * label and 2 * label + 1 the bright ones: pictures belong to labels and are not turned
        assert (images.float().mean(dim=(1, 3)).argmax(dim=1) // 2 == label).all()


@pytest.mark.parametrize("where", ["", "fashion-mnist", "FashionMNIST/raw"])
@pytest.mark.parametrize("zipped", [True, False])
def test_fashion_mnist_idx_files(tmp_path, where, zipped):
    write_idx(tmp_path / "data" / where, zipped=zipped)
    dataset = datasets.load_dataset("fashion_mnist", tmp_path / "data")
    check(dataset, 1, 28, 60, 60)
    assert datasets.load_dataset("fashion_mnist", str(tmp_path / "data")) is dataset


@pytest.mark.parametrize("archive", [True, False])
def test_cifar10_batches(tmp_path, monkeypatch, archive):
    publish_cifar_batches(monkeypatch, tmp_path / "data", archive=archive)
    for path in (tmp_path / "data", *(tmp_path / "data").glob("*.tar.gz")):
        check(datasets.load_dataset("cifar10", path), 3, 32, 250, 50)


@pytest.mark.parametrize("where", ["", "cifar10-images"])
def test_cifar10_image_folders(tmp_path, where):
    write_image_folders(tmp_path / "data" / where, suffix="jpg")
    check(datasets.load_dataset("cifar10", tmp_path / "data"), 3, 32, 40, 40)
    if where:
        with pytest.raises(ValueError, match="no fashion_mnist data found"):
            datasets.load_dataset("fashion_mnist", tmp_path / "data")


def test_fashion_mnist_image_folders_are_read_as_grey(tmp_path):
    write_image_folders(tmp_path, size=28)
    check(datasets.load_dataset("fashion_mnist", tmp_path), 1, 28, 40, 40)


@pytest.mark.parametrize("channels", [1, 3])
def test_own_image_folder(tmp_path, channels):
    write_image_folders(tmp_path, classes=4, size=16, channels=channels)
    dataset = datasets.load_dataset("image_folder", tmp_path)
    check(dataset, channels, 16, 16, 16)
    assert dataset.classes == ("class_0", "class_1", "class_2", "class_3")


def test_image_values_are_exact(tmp_path):
    write_image_folders(tmp_path, classes=3, per_class=1, size=8)
    dataset = datasets.load_dataset("image_folder", tmp_path)
    expected = pixels(labels(1, 3), 8, 3, seed=0).transpose(0, 3, 1, 2)
    np.testing.assert_array_equal(dataset.train_inputs.numpy(), expected)


@pytest.mark.parametrize("by_variable", [True, False])
def test_where_files_lie_is_settled_on_construction(tmp_path, monkeypatch, by_variable):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "trace.csv").write_text("client,join_round,leave_round\n0,3,\n")
    write_idx(tmp_path / "data")
    if by_variable:
        monkeypatch.setenv("BIPPO_DATA", "data")
        assert len(datasets.load_dataset("fashion_mnist").train_labels) == 60
    config = FederationConfig(churn_trace="trace.csv", data_dir=None if by_variable else "data")
    monkeypatch.setenv("BIPPO_DATA", "elsewhere")
    monkeypatch.chdir("/")
    assert config.churn_schedule().num_stays[0] == 1 and config.data_dir == str(tmp_path / "data")


def test_digits_are_scikit_learns_in_its_stratified_split():
    from sklearn.datasets import load_digits
    from sklearn.model_selection import train_test_split

    dataset, published = datasets.load_dataset("digits"), load_digits()
    labels = published.target
    train, test = train_test_split(np.arange(len(labels)), test_size=0.3, random_state=0, stratify=labels)
    for index, images, found in (
        (train, dataset.train_inputs, dataset.train_labels),
        (test, dataset.test_inputs, dataset.test_labels),
    ):
        assert images.dtype == torch.uint8 and found.tolist() == labels[np.sort(index)].tolist()
        expected = torch.from_numpy(published.images.astype(np.uint8)[:, None][np.sort(index)])
        assert torch.equal(images, expected) and images.stride() == expected.stride()  # strides decide on kernels
    assert dataset.classes == tuple(map(str, published.target_names))
    everything = Samples(dataset.train_inputs.numpy(), dataset.train_labels.numpy(), (1257,))
    scaled, _ = ResidentSamples(everything, dataset.max_value, "cpu").client(0)
    assert scaled.dtype == torch.float32 and scaled.min() == -1.0 and scaled.max() == 1.0


@pytest.mark.parametrize(
    ("name", "ways"),
    [
        ("fashion_mnist", ["torchvision.datasets.FashionMNIST", "dataset-fashion-mnist", "train/<class>"]),
        ("cifar10", ["torchvision.datasets.CIFAR10", "cifar-10-python.tar.gz", "train/<class>"]),
        ("image_folder", ["train/<class>/*"]),
    ],
)
def test_missing_data_names_the_ways_to_get_it(tmp_path, name, ways):
    with pytest.raises(ValueError, match=f"no {name} data found; looked in {tmp_path}") as error:
        datasets.load_dataset(name, tmp_path)
    assert all(way in str(error.value) for way in ways) and "\n" not in str(error.value)
    with pytest.raises(ValueError, match=r"neither data_dir nor \$BIPPO_DATA"):
        datasets.load_dataset(name)
    with pytest.raises(ValueError, match=f"{tmp_path / 'typo'}, which does not exist"):
        datasets.load_dataset(name, tmp_path / "typo")


def test_zipped_image_folders_are_read_as_they_are(tmp_path):
    folder = write_image_folders(tmp_path / "images")
    (tmp_path / "data").mkdir()
    shutil.make_archive(str(tmp_path / "data" / "cifar10-images"), "zip", folder)
    unzipped = datasets.load_dataset("cifar10", folder)
    for name, root in (("cifar10", tmp_path / "data"), ("image_folder", tmp_path / "data" / "cifar10-images.zip")):
        zipped = datasets.load_dataset(name, root)
        check(zipped, 3, 32, 40, 40)
        assert zipped.classes == unzipped.classes
        assert torch.equal(zipped.train_inputs, unzipped.train_inputs)
        assert torch.equal(zipped.test_labels, unzipped.test_labels)


def test_a_zip_that_holds_something_else_is_to_be_unzipped(tmp_path):
    archive = tmp_path / "cifar10-images.ZIP"
    archive.write_bytes(b"PK\3\4cut off")
    with pytest.raises(ValueError, match=f"{archive} is no whole zip archive"):
        datasets.load_dataset("cifar10", tmp_path)
    with zipfile.ZipFile(archive, "w") as opened:
        opened.writestr("something", "else")
    for root in (tmp_path, archive):
        with pytest.raises(ValueError, match=f"unzip {archive}"):
            datasets.load_dataset("cifar10", root)


def to_nowhere(path):
    path.unlink()
    path.symlink_to(path.parent / "nowhere")


@pytest.mark.parametrize("in_zip", [True, False])
@pytest.mark.parametrize("suffix", ["png", "jpg"])
@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda path: path.write_bytes(b"no image"), "cannot read {path}: .*; replace or remove it"),
        (lambda path: path.write_bytes(path.read_bytes()[:150]), "cannot read {path}: .*; replace or remove it"),
        (lambda path: Image.new("RGB", (20, 32)).save(path), "{path} has 20x32 pixels, .* has 32x32"),
        (to_nowhere, "cannot read {path}: .*; replace or remove it"),
        (lambda path: shutil.rmtree(path.parent), "only one has class_3"),
    ],
)
def test_an_image_that_cannot_be_read_or_does_not_fit_is_named(tmp_path, suffix, spoil, message, in_zip):
    root = write_image_folders(tmp_path / "images", suffix=suffix)
    path = root / "train" / "class_3" / f"0013.{suffix}"
    spoil(path)
    if in_zip and not path.is_symlink():
        shutil.make_archive(str(root), "zip", root)
        path, root = f"{root}.zip/train/class_3/{path.name}", f"{root}.zip"
    with pytest.raises(ValueError, match=message.format(path=path)):
        datasets.load_dataset("image_folder", root)


@pytest.mark.parametrize(
    "damage", [lambda content: content[:-100], lambda content: content[:40] + b"#" * 9 + content[49:]]
)
def test_damaged_original_files_are_named(tmp_path, monkeypatch, damage):
    path = write_idx(tmp_path / "idx") / "train-images-idx3-ubyte.gz"
    path.write_bytes(damage(path.read_bytes()))  # gzip: EOFError, zlib.error
    with pytest.raises(ValueError, match=f"cannot read {path}: .+; download it again"):
        datasets.load_dataset("fashion_mnist", tmp_path / "idx")
    path = publish_cifar_batches(monkeypatch, tmp_path / "cifar") / "cifar-10-batches-py" / "data_batch_2"
    path.write_bytes(damage(path.read_bytes()))
    with pytest.raises(ValueError, match=f"cannot read {path}: .+; download it again"):
        datasets.load_dataset("cifar10", tmp_path / "cifar")


@pytest.mark.parametrize("zipped", [True, False])
@pytest.mark.parametrize(
    ("header", "message"),
    [
        (b"\0\0\x08\x03" + b"\x7f\xff\xff\xff" * 3, "2147483647 x 2147483647 x 2147483647 values, 4 follow"),
        (b"\0\0\x08\x03\x3b\x9a\xca\0\0\0\0\x1c\0\0\0\x1c", "1000000000 x 28 x 28 values, 4 follow"),
        (b"\0\0\x0d\x03", "idx file"),
        (b"", "idx file"),
    ],
)
def test_what_an_idx_header_announces_must_be_there(tmp_path, zipped, header, message):
    path = write_idx(tmp_path, zipped=zipped) / ("train-images-idx3-ubyte" + ".gz" * zipped)
    path.write_bytes(gzip.compress(header + b"1234") if zipped else header + b"1234")
    with pytest.raises(ValueError, match=f"^cannot read {path}: .*{message}.*; download it again$"):
        datasets.load_dataset("fashion_mnist", tmp_path)


def bomb_in_gzip(root, monkeypatch):
    path = write_idx(root) / "train-labels-idx1-ubyte.gz"
    path.write_bytes(gzip.compress(bytes(10**7)))
    return "fashion_mnist", path


def bomb_in_archive(root, monkeypatch):
    path = publish_cifar_batches(monkeypatch, root, archive=True) / "cifar-10-python.tar.gz"
    with tarfile.open(path, "w:gz") as tar:
        tar.add(__file__, "cifar-10-batches-py/readme.txt")
        member = tarfile.TarInfo("cifar-10-batches-py/data_batch_1")
        member.size = 10**7
        tar.addfile(member, io.BytesIO(bytes(10**7)))
    return "cifar10", path


def bomb_in_tar_header(root, monkeypatch):
    path = publish_cifar_batches(monkeypatch, root, archive=True) / "cifar-10-python.tar.gz"
    header = tarfile.TarInfo("x")
    header.type, header.size = tarfile.XHDTYPE, 10**7  # read whole by tarfile
    path.write_bytes(gzip.compress(header.tobuf() + bytes(10**7)))
    return "cifar10", path


def bomb_in_zip(compression):
    def write(root, monkeypatch):
        folder = write_image_folders(root / "images", classes=2)
        (folder / "train" / "class_0" / "0000.png").write_bytes(bytes(10**7))
        root.joinpath("images.zip").unlink(missing_ok=True)
        with zipfile.ZipFile(root / "images.zip", "w", compression) as opened:
            for path in sorted(folder.rglob("*.png")):
                opened.write(path, path.relative_to(folder))
        shutil.rmtree(folder)
        return "image_folder", root / "images.zip"

    return write


@pytest.mark.parametrize(
    "bomb",
    [
        *(bomb_in_gzip, bomb_in_archive, bomb_in_tar_header),
        *map(bomb_in_zip, (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA)),
    ],
)
def test_a_file_that_unpacks_to_more_than_any_data_set_has_is_not_unpacked(tmp_path, monkeypatch, bomb):
    (tmp_path / "data").mkdir()
    name, path = bomb(tmp_path / "data", monkeypatch)
    monkeypatch.setattr(whole_files, "MAX_BYTES", 2**20)
    with pytest.raises(ValueError, match=f"^cannot read {path}.*unpacks to more"):
        datasets.load_dataset(name, tmp_path / "data")


def test_images_are_decoded_once_unless_one_changes_or_the_cache_is_damaged(tmp_path, monkeypatch):
    write_image_folders(tmp_path / "data")

    def load():
        datasets._load.cache_clear()
        return datasets.load_dataset("image_folder", tmp_path / "data").train_inputs

    first = load()
    with monkeypatch.context() as patch:
        patch.setattr(image_folders, "_decoded", None)
        assert torch.equal(load(), first)
    (cache,) = (tmp_path / "cache" / "bippo").iterdir()
    cache.write_bytes(b"unreadable")
    assert torch.equal(load(), first)
    Image.new("RGB", (32, 32), (9, 9, 9)).save(tmp_path / "data" / "train" / "class_0" / "0000.png")
    assert (load()[0] == 9).all()


def test_a_cache_that_cannot_be_kept_leaves_nothing_behind(tmp_path, monkeypatch):
    write_image_folders(tmp_path / "data")
    _, hard = limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, hard))  # as a full disk
    try:
        assert len(datasets.load_dataset("image_folder", tmp_path / "data").train_labels) == 40
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert not list((tmp_path / "cache").rglob("*.*"))

    def no_home() -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setattr(Path, "home", no_home)
    datasets._load.cache_clear()
    assert len(datasets.load_dataset("image_folder", tmp_path / "data").train_labels) == 40
