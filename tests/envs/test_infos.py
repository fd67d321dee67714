"""Infos hold what their type says."""

from __future__ import annotations

import typing

import numpy as np

import envs
from envs.infos import Info

REPORTS = ("update_profile", "output_bias_update", "update_norm")


def test_infos_have_the_keys_and_kinds_of_their_type():
    reports = {"with_loss": True, "with_label_counts": True, "update_profile_size": 4, "with_output_bias": True}
    fields = {"num_clients": 4, "train_samples": 20, "budget_share": 1.0, "rounds": 2}
    env = envs.parallel_env(**fields, **reports, reward="shapley", with_update_norm=True)
    kinds = typing.get_type_hints(Info)
    assert envs.parallel_env(**fields).reset(seed=1)[1]["client_000"].keys() == Info.__required_keys__
    env.reset(seed=1)
    _, rewards, _, _, infos = env.step({"client_001": 1, "client_002": 1})
    for agent, info in infos.items():
        assert info.keys() == kinds.keys()
        for key, value in info.items():
            assert isinstance(value, kinds[key]), (agent, key)
        trained = agent in ("client_001", "client_002")
        assert info["own_reward"] == (rewards[agent] if trained else None)
        assert all((info[key] is not None) == trained for key in REPORTS)
        assert isinstance(info["label_counts"], np.ndarray)
