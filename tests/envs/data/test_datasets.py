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
    check(datasets.load_dataset("fashion_mnist", tmp_path / "data"), 1, 28, 60, 60)


@pytest.mark.parametrize("archive", [True, False])
def test_cifar10_batches(tmp_path, monkeypatch, archive):
    publish_cifar_batches(monkeypatch, tmp_path / "data", archive=archive)
    check(datasets.load_dataset("cifar10", tmp_path / "data"), 3, 32, 250, 50)


@pytest.mark.parametrize("where", ["", "cifar10-images"])
def test_cifar10_image_folders(tmp_path, where):
    write_image_folders(tmp_path / "data" / where, suffix="jpg")
    check(datasets.load_dataset("cifar10", tmp_path / "data"), 3, 32, 40, 40)


def test_fashion_mnist_image_folders_are_read_as_grey(tmp_path):
    write_image_folders(tmp_path, size=28)
    check(datasets.load_dataset("fashion_mnist", tmp_path), 1, 28, 40, 40)


@pytest.mark.parametrize("channels", [1, 3])
def test_own_image_folder(tmp_path, channels):
    write_image_folders(tmp_path, classes=4, size=16, channels=channels)
    dataset = datasets.load_dataset("image_folder", tmp_path)
    check(dataset, channels, 16, 16, 16)
    assert dataset.classes == ("class_0", "class_1", "class_2", "class_3")


def test_folders_of_another_data_set_are_not_mistaken(tmp_path):
    write_image_folders(tmp_path / "cifar10-images")
    with pytest.raises(ValueError, match="no fashion_mnist data found"):
        datasets.load_dataset("fashion_mnist", tmp_path)


def test_image_values_are_exact(tmp_path):
    write_image_folders(tmp_path, classes=3, per_class=1, size=8)
    dataset = datasets.load_dataset("image_folder", tmp_path)
    expected = pixels(labels(1, 3), 8, 3, seed=0).transpose(0, 3, 1, 2)
    np.testing.assert_array_equal(dataset.train_inputs.numpy(), expected)


def test_bippo_data_is_looked_into_where_no_other_folder_is_named(tmp_path, monkeypatch):
    write_idx(tmp_path)
    monkeypatch.setenv("BIPPO_DATA", str(tmp_path))
    assert len(datasets.load_dataset("fashion_mnist").train_labels) == 60
    with pytest.raises(ValueError, match=r"no fashion_mnist data found; looked in .*elsewhere"):
        datasets.load_dataset("fashion_mnist", tmp_path / "elsewhere")


def test_where_a_churn_trace_lies_is_settled_on_construction(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "trace.csv").write_text("client,join_round,leave_round\n0,3,\n")
    config = FederationConfig(churn_trace="trace.csv")
    monkeypatch.chdir("/")
    assert config.churn_schedule().num_stays[0] == 1


@pytest.mark.parametrize("by_variable", [True, False])
def test_where_data_lies_is_settled_on_construction(tmp_path, monkeypatch, by_variable):
    monkeypatch.chdir(tmp_path)
    if by_variable:
        monkeypatch.setenv("BIPPO_DATA", "data")
    config = FederationConfig(data_dir=None if by_variable else "data")
    monkeypatch.setenv("BIPPO_DATA", "elsewhere")
    monkeypatch.chdir("/")
    assert config.data_dir == str(tmp_path / "data")


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
    scaled, _ = ResidentSamples(everything, dataset.max_value, "cpu").of(0)
    assert scaled.dtype == torch.float32 and scaled.min() == -1.0 and scaled.max() == 1.0


def test_second_load_is_the_same_object(tmp_path):
    write_idx(tmp_path)
    assert datasets.load_dataset("fashion_mnist", tmp_path) is datasets.load_dataset("fashion_mnist", str(tmp_path))


@pytest.mark.parametrize(
    ("name", "ways"),
    [
        (
            "fashion_mnist",
            ["torchvision.datasets.FashionMNIST", "apt-get install dataset-fashion-mnist", "train/<class>"],
        ),
        ("cifar10", ["torchvision.datasets.CIFAR10", "cifar-10-python.tar.gz", "train/<class>"]),
        ("image_folder", ["train/<class>/*"]),
    ],
)
def test_missing_data_names_the_ways_to_get_it(tmp_path, name, ways):
    with pytest.raises(ValueError, match=f"no {name} data found; looked in {tmp_path}") as error:
        datasets.load_dataset(name, tmp_path)
    assert all(way in str(error.value) for way in ways) and "\n" not in str(error.value)
    with pytest.raises(ValueError, match=r"neither data_dir nor \$BIPPO_DATA is set"):
        datasets.load_dataset(name)


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


def test_a_broken_image_in_a_zip_is_named(tmp_path):
    folder = write_image_folders(tmp_path / "images")
    broken = sorted((folder / "train" / "class_3").iterdir())[0]
    broken.write_bytes(b"no image")
    shutil.make_archive(str(tmp_path / "cifar"), "zip", folder)
    with pytest.raises(ValueError, match=rf"cannot read .*cifar.zip/train/class_3/{broken.name}"):
        datasets.load_dataset("image_folder", tmp_path / "cifar.zip")


def test_a_zip_that_holds_something_else_is_to_be_unzipped(tmp_path):
    archive = tmp_path / "cifar10-images.ZIP"
    archive.write_bytes(b"PK\3\4cut off")
    with pytest.raises(ValueError, match=rf"{archive} is no whole zip archive"):
        datasets.load_dataset("cifar10", tmp_path)
    with zipfile.ZipFile(archive, "w") as opened:
        opened.writestr("something", "else")
    for root in (tmp_path, archive):
        with pytest.raises(ValueError, match=rf"unzip {archive} and point to the folder"):
            datasets.load_dataset("cifar10", root)


def test_cifar10_archive_may_be_pointed_to(tmp_path, monkeypatch):
    archive = publish_cifar_batches(monkeypatch, tmp_path, archive=True) / "cifar-10-python.tar.gz"
    assert len(datasets.load_dataset("cifar10", archive).test_labels) == 50


def test_a_folder_that_is_not_there_is_said_to_be_missing(tmp_path):
    with pytest.raises(ValueError, match=f"looked in {tmp_path / 'typo'}, which does not exist"):
        datasets.load_dataset("cifar10", tmp_path / "typo")


def test_unknown_name():
    with pytest.raises(ValueError, match="data set is 'mnist'; choose one of digits, fashion_mnist"):
        datasets.load_dataset("mnist")


@pytest.mark.parametrize("content", [b"no image", None])
@pytest.mark.parametrize("suffix", ["png", "jpg"])
def test_corrupt_image_is_named(tmp_path, suffix, content):
    write_image_folders(tmp_path, suffix=suffix)
    broken = tmp_path / "train" / "class_3" / f"0013.{suffix}"
    broken.write_bytes(broken.read_bytes()[:150] if content is None else content)
    with pytest.raises(ValueError, match=f"cannot read {broken}: .*; replace or remove it"):
        datasets.load_dataset("cifar10", tmp_path)


def test_a_link_to_nowhere_is_named(tmp_path):
    write_image_folders(tmp_path)
    link = tmp_path / "train" / "class_3" / "0013.png"
    link.unlink()
    link.symlink_to(tmp_path / "nowhere")
    with pytest.raises(ValueError, match=f"cannot read {link}: .*; replace or remove it"):
        datasets.load_dataset("cifar10", tmp_path)


def test_odd_sized_image_is_named(tmp_path):
    write_image_folders(tmp_path)
    odd = tmp_path / "test" / "class_3" / "0013.png"
    Image.new("RGB", (20, 32)).save(odd)
    with pytest.raises(ValueError, match=f"{odd} has 20x32 pixels, .* has 32x32"):
        datasets.load_dataset("cifar10", tmp_path)


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
        (b"\0\0\x08\x03" + b"\x7f\xff\xff\xff" * 3, "announces 2147483647 x 2147483647 x 2147483647 values, 4 follow"),
        (b"\0\0\x08\x03\x3b\x9a\xca\0\0\0\0\x1c\0\0\0\x1c", "announces 1000000000 x 28 x 28 values, 4 follow"),
        (b"\0\0\x0d\x03", "does not begin as an idx file of unsigned bytes"),
        (b"", "does not begin as an idx file"),
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
    with pytest.raises(
        ValueError, match=f"^cannot read {path}.*unpacks to more.*; (download it again|replace or remov)"
    ):
        datasets.load_dataset(name, tmp_path / "data")


def test_classes_of_both_splits_must_agree(tmp_path):
    write_image_folders(tmp_path)
    shutil.rmtree(tmp_path / "test" / "class_7")
    with pytest.raises(ValueError, match="only one has class_7"):
        datasets.load_dataset("image_folder", tmp_path)


def test_images_are_decoded_once(tmp_path, monkeypatch):
    write_image_folders(tmp_path / "data")
    first = datasets.load_dataset("image_folder", tmp_path / "data")
    datasets._load.cache_clear()
    with monkeypatch.context() as patch:
        patch.setattr(image_folders, "_decoded", None)
        second = datasets.load_dataset("image_folder", tmp_path / "data")
    assert torch.equal(first.train_inputs, second.train_inputs)

    (cache,) = (tmp_path / "cache" / "bippo").iterdir()
    cache.write_bytes(b"unreadable")
    datasets._load.cache_clear()
    assert torch.equal(datasets.load_dataset("image_folder", tmp_path / "data").test_inputs, first.test_inputs)


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


def test_a_changed_image_is_decoded_again(tmp_path):
    write_image_folders(tmp_path / "data")
    datasets.load_dataset("image_folder", tmp_path / "data")
    Image.new("RGB", (32, 32), (9, 9, 9)).save(tmp_path / "data" / "train" / "class_0" / "0000.png")
    datasets._load.cache_clear()
    assert (datasets.load_dataset("image_folder", tmp_path / "data").train_inputs[0] == 9).all()
