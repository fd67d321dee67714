"""Where images lie: ``train/<class>/*`` and ``test/<class>/*`` in a folder or a zip archive."""

from __future__ import annotations

import os
import re
import zipfile
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, NamedTuple

from envs.data.read_errors import reading
from envs.data.whole_files import Openable

SPLITS = ("train", "test")

#: The parts of a path.
Parts = tuple[str, ...]
#: Folders below the class, name, file.
_Image = tuple[Parts, str, Openable]


@dataclass(frozen=True)
class Member:
    """A file in a zip archive."""

    archive: zipfile.ZipFile
    name: str

    def __str__(self) -> str:
        return f"{self.archive.filename}/{self.name}"

    def open(self, mode: Any) -> IO[Any]:
        """Returns a stream of its bytes."""
        return self.archive.open(self.name)


class Listing(NamedTuple):
    """The images of one split, and the label of each as an index into ``classes``."""

    files: list[Openable]
    targets: list[int]
    classes: list[str]


@dataclass(frozen=True)
class ImageTree:
    """A folder or zip archive that holds both splits."""

    source: Path  #: Its path.
    splits: Mapping[str, Parts]  #: Where each split is in it, in the spelling it has there.

    def listings(self) -> dict[str, Listing]:
        """Returns the images of each split in the order that torchvision's ``ImageFolder`` has, zipped or not.

        Raises:
            ValueError: If a split has none, or a class has none; names all such classes of both splits.
        """
        found = {split: self._by_class(split) for split in SPLITS}
        if problems := [problem for split in SPLITS if (problem := self._missing(split, found[split]))]:
            raise ValueError(
                f"no images in {', and none in '.join(problems)} (expected {self._where('train')}/<class>/*.png, .jpg, "
                "... and the same classes for testing)"
            )
        return {split: _listing(by_class) for split, by_class in found.items()}

    def _by_class(self, split: str) -> dict[str, list[_Image]]:
        """Of each class, its images."""
        from torchvision.datasets.folder import IMG_EXTENSIONS  # takes seconds to import

        by_class: dict[str, list[_Image]] = defaultdict(list)
        for (name, *folders, last), file in self._files(self.splits[split]):
            images = by_class[name]
            if last.lower().endswith(IMG_EXTENSIONS):
                images.append((tuple(folders), last, file))
        return by_class

    def _missing(self, split: str, by_class: Mapping[str, list[_Image]]) -> str:
        """Where images are missing, or an empty text."""
        empty = sorted(name for name, images in by_class.items() if not images)
        if not by_class:
            return self._where(split)
        return f"{self._where(split)} for {', '.join(empty)}" if empty else ""

    def _where(self, split: str) -> str:
        return "/".join((str(self.source), *self.splits[split]))

    def _files(self, prefix: Parts) -> Iterator[tuple[Parts, Openable]]:
        """Files and folders of classes with the parts of their paths below ``prefix``; those of folders end in ""."""
        if self.source.is_dir():
            root = self.source.joinpath(*prefix)
            entries: Iterable[tuple[Parts, Openable]] = ((parts, root.joinpath(*parts)) for parts in _walk(root))
        else:
            entries = (
                (parts[len(prefix) :], member)
                for parts, member in _members(self.source)
                if parts[: len(prefix)] == prefix
            )
        return ((parts, file) for parts, file in entries if len(parts) >= 2)


def image_trees(root: Path, named: str = "") -> list[ImageTree]:
    """Finds the tree at ``root``, a folder or zip archive, or else those among the folders and archives in it.

    Args:
        root: Where to look.
        named: Pattern of the names, in small letters, of the folders and archives that are looked into.
    """
    own = _tree(root)
    if own or not root.is_dir():
        return [own] if own else []
    below = [path for path in sorted(root.glob("*")) if is_visible(path.name) and re.search(named, path.name.lower())]
    return [tree for path in below if (tree := _tree(path))]


def is_visible(name: str) -> bool:
    """Returns False for the name of what a system or program keeps for itself, such as ``._1.png``."""
    return not name.startswith(".") and name != "__MACOSX"


def is_zip(path: Path) -> bool:
    """Returns whether the file's name says that it is a zip archive."""
    return path.suffix.lower() == ".zip"


def _tree(source: Path) -> ImageTree | None:
    if source.is_dir():
        return _with_splits(source, [(path.name, "") for path in source.glob("*") if path.is_dir()])
    if is_zip(source) and zipfile.is_zipfile(source):
        return _with_splits(source, [parts for parts, _ in _members(source)])
    return None


def _with_splits(source: Path, found: Iterable[Parts]) -> ImageTree | None:
    """Both splits are at the top, or in a zip archive also in a folder of it; ``Train`` is one, but ``train`` first."""
    folders = {parts[:depth] for parts in found for depth in (1, 2) if len(parts) > depth}
    spelled = {(*folder[:-1], folder[-1].lower()): folder for folder in sorted(folders)}
    for above in sorted({folder[:-1] for folder in folders}):
        if all((*above, split) in spelled for split in SPLITS):
            return ImageTree(source, {split: spelled[(*above, split)] for split in SPLITS})
    return None


def _walk(root: Path) -> Iterator[Parts]:
    for folder, folders, files in os.walk(root, followlinks=True):
        folders[:] = filter(is_visible, folders)
        for link in (path for name in folders if (path := Path(folder, name)).is_symlink()):
            _check_no_circle(link)
        above = Path(folder).relative_to(root).parts
        yield from ((*above, name, "") for name in folders)
        yield from ((*above, name) for name in files if is_visible(name))


def _check_no_circle(link: Path) -> None:
    if link.resolve() in {folder.resolve() for folder in link.parents}:
        raise ValueError(f"{link} is a link to a folder around it, so that its images have no end; remove it")


def _members(path: Path) -> Iterator[tuple[Parts, Member]]:
    r"""Some programs write ``\`` between folders, or ``./`` before them. Of two with one name, the last counts."""
    with reading(path, "make it anew"):
        archive = zipfile.ZipFile(path)
    for name in dict.fromkeys(archive.namelist()):
        parts = tuple(part for part in name.replace("\\", "/").split("/") if part != ".")
        if all(map(is_visible, parts)):
            yield parts, Member(archive, name)


def _listing(by_class: Mapping[str, list[_Image]]) -> Listing:
    classes = sorted(by_class)
    found = [(file, label) for label, name in enumerate(classes) for *_, file in sorted(by_class[name], key=_place)]
    return Listing([file for file, _ in found], [label for _, label in found], classes)


def _place(image: _Image) -> tuple[str, str]:
    folders, name, _ = image
    return "/".join(folders), name
