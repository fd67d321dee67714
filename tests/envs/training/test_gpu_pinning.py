"""Ray's logical GPUs: which actor sees which, without a GPU in the machine."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import Any

import pytest

import envs
from envs.training.actor_plan import ActorPlan
from envs.training.client_actor import ActorInfo
from envs.training.new_executor import new_executor
from envs.training.ray_executor import RayExecutor


@pytest.fixture
def two_gpus(ray_cluster: Any, ray_session: None, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A node that has them."""
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0,1")
    node = ray_cluster.add_node(num_cpus=2, num_gpus=2)
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES")
    yield
    ray_cluster.remove_node(node)
    ray_cluster.wait_for_nodes()


@pytest.mark.slow
def test_each_actor_sees_the_gpu_ray_assigned_to_it_and_no_other(
    two_gpus: None, caplog: pytest.LogCaptureFixture
) -> None:
    found = []
    for settings in ({"gpus_per_actor": 0.5}, {}):
        with caplog.at_level(logging.WARNING, "envs"):
            executor = new_executor(envs.FederationConfig(num_clients=4, cpus_per_actor=0.5, **settings))
        assert isinstance(executor, RayExecutor)  # what `auto` takes
        found.append(sorted(actor.visible_gpus for actor in executor.actors))
        devices = {actor.device for actor in executor.actors}
        executor.close()
    # With 0.5 each four share two GPUs, else there is one per GPU.
    assert found == [["0", "0", "1", "1"], ["0", "1"]]
    if "cpu" in devices:
        assert caplog.text.count("4 of 4 FL actors hold GPUs that torch cannot use") == 1
        assert caplog.text.count("2 of 2 FL actors hold GPUs that torch cannot use") == 1
    else:
        assert devices == {"cuda:0"}


def test_a_node_without_cuda_beside_one_with_it_is_logged_once(
    ray_session: None, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    config, plan = envs.FederationConfig(num_clients=4), ActorPlan(num_actors=2, cpus_per_actor=0, gpus_per_actor=1)
    places = [ActorInfo(1, "cuda:0", "0"), ActorInfo(2, "cpu", "1")]
    monkeypatch.setattr(RayExecutor, "_infos", lambda executor, actors: [places[slot] for slot in actors])
    for _ in range(2):
        RayExecutor(config, plan, new_actor=lambda slot: slot)
    assert caplog.text.count("1 of 2 FL actors hold GPUs that torch cannot use and train on the CPU") == 1
