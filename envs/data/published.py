"""Fashion-MNIST and CIFAR-10 as published, distinguished from data sets whose files have the same names."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from torchvision.datasets import CIFAR10, CIFAR100, MNIST, FashionMNIST

from envs.checks import printable

logger = logging.getLogger(__name__)

#: md5 of the training labels, unpacked, of other data sets in idx files; their images were published more than once.
_OTHER_LABELS = {"a25bea736e30d166cdddb491f175f624": "MNIST", "949e75301f8813e0dc5800dcc320fc52": "KMNIST"}


@dataclass(frozen=True)
class Published:
    """A data set that is loaded by its name."""

    title: str  #: What it calls itself.
    image_shape: tuple[int, int, int]  #: (channels, height, width).
    classes: tuple[str, ...]  #: Names of the labels.
    md5: Mapping[str, str]  #: Of each of its files, unpacked.
    folders: str  #: Pattern of what folders and archives of its images are called among others, in small letters.
    lookalikes: frozenset[str]  #: Folders in which torchvision keeps data sets that are taken for it, in small letters.

    @property
    def mode(self) -> str:
        """Returns ``L`` (grey) or ``RGB``."""
        return "L" if self.image_shape[0] == 1 else "RGB"

    def is_lookalikes(self, folder: Path) -> bool:
        """Returns whether torchvision keeps another data set in a folder of that name."""
        named = folder.parent if folder.name == "raw" else folder
        return named.name.lower() in self.lookalikes

    def check_files(self, source: Path, md5: Mapping[str, str]) -> None:
        """Warns if the files differ from the published ones.

        Raises:
            ValueError: If they are known to be another data set's.
        """
        for other in filter(None, map(_OTHER_LABELS.get, md5.values())):
            raise ValueError(f"{source} holds {other}, whose files are named as those of {self.title} are")
        if changed := sorted(name for name in md5 if md5[name] != self.md5[name]):
            self._warn(source, f"{', '.join(changed)} differ from what was published (md5)")

    def check_images(self, source: Path, image_shape: tuple[int, ...], classes: tuple[str, ...]) -> None:
        """Warns if the classes have other names.

        Raises:
            ValueError: If the images or the number of classes are another data set's.
        """
        here = (f"{len(classes)} classes", f"images of shape {image_shape}")
        there = (f"{len(self.classes)} classes", f"images of shape {self.image_shape}")
        for found, expected in zip(here, there, strict=True):
            if found != expected:
                raise ValueError(
                    f"{source} has {found}, {self.title} has {expected}; use dataset='image_folder' for other data"
                )
        if set(classes) != set(self.classes):
            self._warn(source, f"its classes are {', '.join(classes)}")

    def _warn(self, source: Path, why: str) -> None:
        text = f"{source} is taken for {self.title} without being known as such: {why}"
        logger.warning("%s", printable(text))


_FASHION_CLASSES = (
    *("t-shirt", "trouser", "pullover", "dress", "coat"),
    *("sandal", "shirt", "sneaker", "bag", "ankle-boot"),
)
_IDX_FAMILY = {MNIST.__name__, *(family.__name__ for family in MNIST.__subclasses__())}

PUBLISHED = {
    "fashion_mnist": Published(
        title="Fashion-MNIST",
        image_shape=(1, 28, 28),
        classes=_FASHION_CLASSES,
        # torchvision lists the .gz files as they were published first; those of Debian are packed anew.
        md5={
            "train-images-idx3-ubyte": "f4a8712d7a061bf5bd6d2ca38dc4d50a",
            "train-labels-idx1-ubyte": "9018921c3c673c538a1fc5bad174d6f9",
            "t10k-images-idx3-ubyte": "8181f5470baa50b63fa0f6fddb340f0a",
            "t10k-labels-idx1-ubyte": "15d484375f8d13e6eb1aabb0c3f46965",
        },
        folders="fashion",
        lookalikes=frozenset(name.lower() for name in _IDX_FAMILY - {FashionMNIST.__name__}),
    ),
    "cifar10": Published(
        title="CIFAR-10",
        image_shape=(3, 32, 32),
        classes=("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck"),
        md5=dict([*CIFAR10.train_list, *CIFAR10.test_list]),
        folders="cifar(?!.*100)",
        lookalikes=frozenset({CIFAR100.base_folder}),
    ),
}
