"""Defaults of a federation that depend on its data set."""

from __future__ import annotations

import os
from dataclasses import dataclass

from envs.checks import absolute_path


@dataclass(frozen=True)
class DatasetDefaults:
    """Values that ``None`` stands for in a ``FederationConfig``, per data set."""

    model: str
    train_samples: int
    test_samples: int
    batch_size: int = 32
    lr: float = 0.1


DATASET_DEFAULTS = {
    # The learning rate of digits is half the paper's, chosen by FL with all clients; the digits scenario's too.
    "digits": DatasetDefaults("digits_cnn", 50, 20, lr=0.05),
    "fashion_mnist": DatasetDefaults("cnn", 1200, 200),
    "cifar10": DatasetDefaults("resnet18", 1000, 200),
    "image_folder": DatasetDefaults("cnn", 100, 20),
}
#: Defaults of a custom data set.
OWN_DATASET_DEFAULTS = DATASET_DEFAULTS["image_folder"]


def absolute_data_dir(data_dir: str | os.PathLike[str] | None) -> str | None:
    """Returns ``data_dir``, or else ``$BIPPO_DATA``, as an absolute path; None if neither is set.

    It is looked up once, since other processes have other working directories and environments.
    """
    path = data_dir or os.environ.get("BIPPO_DATA")
    return absolute_path("data_dir", path) if path else None
