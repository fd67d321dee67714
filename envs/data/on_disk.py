"""Data sets in files: the published ones as they are downloaded, and folders of images."""

from __future__ import annotations

import zipfile
from pathlib import Path

from envs.data.cifar_files import cifar_source, read_cifar
from envs.data.idx_files import has_idx_files, read_idx
from envs.data.image_folders import read_image_folder
from envs.data.image_tree import image_trees, is_zip
from envs.data.original_files import Split, folders_of
from envs.data.published import PUBLISHED, Published

#: Training and test split, and the names of the classes.
Read = tuple[Split, Split, tuple[str, ...]]

_POINT = "Point data_dir or $BIPPO_DATA to"
_FOLDERS = "train/<class>/* and test/<class>/*, zipped or not"
_DOWNLOAD = "what `python -c \"import torchvision; torchvision.datasets.{}('data', download=True)\"` downloads"
#: Names of the data sets, and where each may lie.
HELP = {
    "fashion_mnist": (
        f"{_POINT} (1) {_DOWNLOAD.format('FashionMNIST')}, (2) the four original *-ubyte.gz files (`apt-get install "
        "dataset-fashion-mnist` puts them into /usr/share/datasets/fashion-mnist), or (3) folders of images "
        f"{_FOLDERS}"
    ),
    "cifar10": (
        f"{_POINT} (1) {_DOWNLOAD.format('CIFAR10')}, (2) the original cifar-10-python.tar.gz, or (3) folders of "
        f"images {_FOLDERS}"
    ),
    "image_folder": f"{_POINT} a folder with {_FOLDERS}",
}


def read(name: str, data_dir: str | None) -> Read:
    """Reads the data set of that name; ``load_dataset`` says what it raises."""
    if data_dir is None:
        raise ValueError(f"no {name} data found: neither data_dir nor $BIPPO_DATA is set. {HELP[name]}")
    root = Path(data_dir)
    found = _published(name, PUBLISHED[name], root) if name in PUBLISHED else _own_images(root)
    if found is None:
        raise ValueError(_missing(name, root))
    return found


def _published(name: str, known: Published, root: Path) -> Read | None:
    """From its original files, or else from folders of images."""
    if source := _original_files(name, known, root):
        train, test = _read_originals(name, known, source)
        classes = known.classes
    elif trees := image_trees(root, known.folders):
        source = trees[0].source
        splits, classes = read_image_folder(trees[0], known.mode)
        train, test = splits["train"], splits["test"]
    else:
        return None
    known.check_images(source, train[0].shape[1:], classes)
    return train, test, classes


def _original_files(name: str, known: Published, root: Path) -> Path | None:
    if name == "cifar10":
        return cifar_source(root)
    return next((path for path in folders_of(root) if has_idx_files(path) and not known.is_lookalikes(path)), None)


def _read_originals(name: str, known: Published, source: Path) -> tuple[Split, Split]:
    if name == "cifar10":
        return read_cifar(source, known.md5)
    train, test, md5 = read_idx(source)
    known.check_files(source, md5)
    return train, test


def _own_images(root: Path) -> Read | None:
    trees = image_trees(root)
    if not trees:
        return None
    if len({tree.source.stem for tree in trees}) > 1:  # one beside its own zip archive is no other
        found = ", ".join(tree.source.name for tree in trees)
        raise ValueError(f"{root} has several folders with train/ and test/: {found}; point data_dir to one of them")
    splits, classes = read_image_folder(trees[0])
    return splits["train"], splits["test"], classes


def _missing(name: str, root: Path) -> str:
    known = PUBLISHED.get(name)
    lookalikes = [path for path in folders_of(root) if known and known.is_lookalikes(path)]
    zips = [path for path in (root, *sorted(root.glob("*"))) if path.is_file() and is_zip(path)]
    hint = ""
    if not root.exists():
        hint = ", which does not exist"
    elif lookalikes:
        hint = f" ({lookalikes[0]} holds another data set)"
    elif zips:
        whole = zipfile.is_zipfile(zips[0])
        hint = f" (unzip {zips[0]} and point to the folder)" if whole else f" ({zips[0]} is no whole zip archive)"
    return f"no {name} data found; looked in {root}{hint}. {HELP[name]}"
