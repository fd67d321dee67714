"""Defaults of a federation that depend on its data set."""

from __future__ import annotations

import os
from dataclasses import dataclass

from envs.checks import absolute_path


@dataclass(frozen=True)
class DatasetDefaults:
    """What ``None`` stands for in a ``FederationConfig``, per data set."""

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
#: Of a data set that a user's own function loads.
OWN_DATASET_DEFAULTS = DATASET_DEFAULTS["image_folder"]


def absolute_data_dir(data_dir: str | os.PathLike[str] | None) -> str | None:
    """``data_dir``, or else what ``$BIPPO_DATA`` names, as an absolute path; None if there is neither.

    Other processes have other working directories and environments, so that it is looked up once.
    """
    path = data_dir or os.environ.get("BIPPO_DATA")
    return absolute_path("data_dir", path) if path else None
