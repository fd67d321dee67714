"""The selector without Ray picks what the trained algorithm would pick."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from toy_envs import Workers

from bippo_rllib import BippoConfig, ClientSelector


@pytest.fixture(scope="module")
def trained(ray_session, tmp_path_factory):
    algo = (
        BippoConfig()
        .environment(Workers, env_config={"num_workers": 6, "rounds": 100})
        .debugging(seed=7, log_level="ERROR")
        .build_algo()
    )
    for _ in range(12):
        algo.train()
    path = algo.save_to_path(tmp_path_factory.mktemp("selector") / "checkpoint")
    yield algo, path
    algo.stop()


def test_it_selects_what_the_algorithm_selects(trained):
    algo, path = trained
    selector = ClientSelector.from_checkpoint(path)
    episode = algo.env_runner._episode
    observations, infos = episode.get_observations(), episode.get_infos()
    chosen = selector.select(observations, {a: i["cost"] for a, i in infos.items()}, 3.0)
    algo.env_runner.sample(num_timesteps=1, explore=False)
    assert sorted(chosen) == [a for a, act in algo.parallel_env.last_actions.items() if act]


def test_it_runs_where_ray_is_not_installed(trained):
    code = f"""
import sys
sys.modules["ray"] = None
from bippo_rllib import ClientSelector
selector = ClientSelector.from_checkpoint({str(trained[1])!r})
clients = selector.policy_ids
print(len(selector.select({{c: [0.5, 0.5, 0.5] for c in clients}}, dict.fromkeys(clients, 1.0), 2.5)))
"""
    root = Path(__file__).resolve().parents[1]
    result = subprocess.run([sys.executable, "-c", code], cwd=root, capture_output=True, text=True, check=False)
    assert result.stdout.strip() == "2", result.stderr


def test_bad_input_is_refused_by_name(trained, tmp_path):
    selector = ClientSelector.from_checkpoint(trained[1])
    state = np.zeros(3)
    with pytest.raises(ValueError, match="no policy for \\['stranger'\\]"):
        selector.select({"stranger": state}, {"stranger": 1.0}, 1.0)
    with pytest.raises(ValueError, match="no cost for \\['worker_01'\\]"):
        selector.select({"worker_00": state, "worker_01": state}, {"worker_00": 1.0}, 1.0)
    with pytest.raises(ValueError, match="worker_00 has cost -1"):
        selector.select({"worker_00": state}, {"worker_00": -1.0}, 1.0)
    with pytest.raises(ValueError, match="no policies at"):
        ClientSelector.from_checkpoint(tmp_path)
    with pytest.raises(ValueError, match=r"worker_00 has an observation of shape \(2,\); expected \(3,\)"):
        selector.select({"worker_00": np.zeros(2)}, {"worker_00": 1.0}, 1.0)
    assert selector.select({}, {}, 1.0) == []


def test_a_client_that_returned_keeps_its_policy(trained):
    selector, state = ClientSelector.from_checkpoint(trained[1]), np.full(3, 0.5)
    assert selector.suggestions({"worker_03#2": state}) == {
        "worker_03#2": selector.suggestions({"worker_03": state})["worker_03"]
    }
