"""A BIPPO run in this process, for benchmarks that look at its rounds one by one."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import envs
from envs.config import config_from
from envs.data.datasets import load_dataset
from experiments.study.ray_session import quiet, ray_session


@contextmanager
def bippo_run(make_env: Callable[..., envs.FederatedRounds], federation: Mapping[str, Any]) -> Iterator[Any]:
    """The algorithm in ``make_env(**federation)``, on one torch thread; a Ray that did not run before is shut down."""
    make_env(**federation)  # what does not fit together is found out before anything is started
    quiet()
    import torch

    from bippo_rllib import BippoConfig

    torch.set_num_threads(1)
    with ray_session():
        config = BippoConfig().environment(make_env, env_config=dict(federation)).debugging(seed=federation["seed"])
        algo = config.build_algo()
        try:
            yield algo
        finally:
            algo.stop()


def with_available_samples(federation: Mapping[str, Any]) -> dict[str, Any]:
    """The federation, with fewer samples per client where the data set holds not as many for so many clients."""
    config = config_from(**federation)
    data = load_dataset(config.dataset, config.data_dir)
    train, test = (len(labels) // config.num_clients for labels in (data.train_labels, data.test_labels))
    return {
        **federation,
        "train_samples": max(1, min(config.train_sizes[0], train)),
        "test_samples": max(1, min(config.test_sizes[0], test)),
    }
