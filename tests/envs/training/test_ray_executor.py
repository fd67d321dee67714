"""Training in Ray actors: the same bits as serial whatever their number, and after actors die or clients fail."""

from __future__ import annotations

import logging
import math
import os
import signal
import threading

import numpy as np
import pytest
import torch
from actor_hosts import OneFails, hosted_executor

import envs
from envs.config import only_read
from envs.training import ray_executor
from envs.training.new_executor import new_executor
from envs.training.ray_executor import RayExecutor
from envs.training.serial_executor import SerialExecutor
from envs.training.torch_threads import torch_threads

pytestmark = pytest.mark.usefixtures("ray_session")

TINY = {"num_clients": 6, "train_samples": 20, "test_samples": 8, "rounds": 50, "local_epochs": 1, "with_loss": True}
# Two clients a round of different sizes, others each round.
SIZES = (30, 10, 20, 25, 15, 20)


def config(**fields):
    return envs.FederationConfig(**only_read(TINY | {"train_samples": SIZES, "budget_j": math.inf} | fields))


def rounds_of(env, count, disturb=lambda round_index: None):
    """Rounds with their infos and model, bit for bit; three of six clients each."""
    seen = [env.reset(seed=7)[1]]
    for index in range(count):
        disturb(index)
        infos = env.step({agent: (place + index) % 2 for place, agent in enumerate(env.agents)})[-1]
        seen.append((env.last_round, infos, env.get_state()["weights"].numpy().tobytes()))
    return seen


@pytest.fixture(scope="module")
def reference():
    return rounds_of(envs.FederatedRounds(config(executor="serial")), 5)


class SerialOneFails(SerialExecutor):
    def __init__(self, config):
        super().__init__(config)
        self._worker = OneFails(config, self._worker._shape, "cpu")


@pytest.mark.parametrize("num_actors", [1, 2, 3])
def test_same_bits_as_serial(reference, actor_hosts, num_actors):
    env = envs.FederatedRounds(config(), lambda config: hosted_executor(actor_hosts, config, num_actors))
    assert rounds_of(env, 5) == reference


@pytest.mark.parametrize(
    "fields",
    [
        {"partition": "shards", "shards_per_client": 3, "train_samples": 20},
        {"partition": "iid"},
        # Test sets of 41 to 65 samples, as the split has too few of some classes.
        {"partition": "dirichlet_over_labels", "alpha": 0.05, "test_samples": 80},
    ],
    ids=lambda fields: fields["partition"],
)
def test_same_bits_as_serial_with_any_partition(actor_hosts, fields):
    env = envs.FederatedRounds(config(**fields), lambda config: hosted_executor(actor_hosts, config, 2))
    assert rounds_of(env, 2) == rounds_of(envs.FederatedRounds(config(executor="serial", **fields)), 2)


def test_the_bits_follow_the_federations_threads_and_not_the_processs(reference, actor_hosts):
    with torch_threads(2):
        assert rounds_of(envs.FederatedRounds(config(executor="serial")), 5) == reference
        assert torch.get_num_threads() == 2
    two = {"torch_threads": 2, "train_samples": 50}
    serial = rounds_of(envs.FederatedRounds(config(executor="serial", **two)), 2)
    in_actor = envs.FederatedRounds(config(**two), lambda config: hosted_executor(actor_hosts, config, 1))
    assert rounds_of(in_actor, 2) == serial


def test_weights_travel_once_a_round_and_every_actor_is_called_once_a_phase(actor_hosts, monkeypatch):
    executor = hosted_executor(actor_hosts, config(with_loss=False), 2)
    env = envs.FederatedRounds(config(with_loss=False), lambda config: executor)
    env.reset(seed=7)
    puts, calls, put, run = [], [], ray_executor.ray.put, executor._run
    monkeypatch.setattr(ray_executor.ray, "put", lambda value: puts.append(value.nbytes) or put(value))
    monkeypatch.setattr(executor, "_run", lambda made: calls.append([call.method for call in made]) or run(made))
    for _ in range(3):
        env.step(dict.fromkeys(env.agents, 1))
    assert puts == [4 * 1370] * 3
    # Six test sets of 8 samples are one batch, which is never cut.
    assert calls == [["train", "train"], ["evaluate"]] * 3


@pytest.mark.parametrize("executor", ["serial", "ray"])
def test_a_client_that_fails_is_named(actor_hosts, executor):
    env = failing_env(actor_hosts, executor)
    env.reset(seed=7)
    env.step({})
    with pytest.raises(ValueError, match="client 2 failed in round 2: MemoryError: no memory left"):
        env.step({"client_004": 1, "client_002": 1})
    # The round was not run; without the client it can be.
    env.step({"client_004": 1})
    assert env.last_round.trained == (4,)


@pytest.mark.parametrize("executor", ["serial", "ray"])
def test_a_client_that_fails_is_dropped_but_has_spent_its_energy(actor_hosts, executor, caplog):
    env = failing_env(actor_hosts, executor, on_client_failure="drop")
    twin = envs.FederatedRounds(config(executor="serial"))
    _, before = env.reset(seed=7)
    twin.reset(seed=7)
    env.step({}), twin.step({})
    with caplog.at_level(logging.WARNING, "envs"):
        observations, *_, infos = env.step({"client_004": 1, "client_002": 1})
    twin.step({"client_004": 1})
    assert "dropped: client 2 failed in round 2" in caplog.text
    assert torch.equal(env.get_state()["weights"], twin.get_state()["weights"])
    assert (env.last_round.trained, env.last_round.failed, env.last_round.dropped) == ((4,), (2,), ())
    spent = before["client_004"]["cost"] + before["client_002"]["cost"]
    assert env.last_round.energy_j == pytest.approx(spent, rel=1e-12)
    assert env.last_round.energy_j > twin.last_round.energy_j
    assert infos["client_002"]["failed"] and infos["client_002"]["granted_j"] == before["client_002"]["cost"]
    assert [row[4] for row in observations.values()] == [0.0, 0.0, 0.0, 0.0, 1.0, 0.0]
    # Alone, and NaN: nobody trained, so the model stays and the reward is 0.
    _, rewards, *_, infos = env.step({"client_005": 1})
    assert (env.last_round.trained, env.last_round.failed, set(rewards.values())) == ((), (5,), {0.0})
    assert torch.equal(env.get_state()["weights"], twin.get_state()["weights"])
    assert "client 5 diverged in round 3" in caplog.text
    env.step({})
    assert env.last_round.failed == () and env.last_round.energy_j == 0.0


def failing_env(hosts, executor, **fields):
    def in_actors(config):
        return hosted_executor(hosts, config, 2, OneFails)

    return envs.FederatedRounds(config(**fields), SerialOneFails if executor == "serial" else in_actors)


@pytest.mark.slow
def test_actors_live_through_all_rounds_and_are_replaced_when_killed(reference, caplog):
    """Two real actors: their processes in round 1 and 50; then one is killed between rounds, one in mid-round."""
    env = envs.FederatedRounds(config(executor="ray", num_actors=2, cpus_per_actor=0.25))
    rounds_of(env, 1)
    executor = env._federation._executor
    first = [actor.pid for actor in executor.actors]
    for _ in range(49):
        env.step({"client_000": 1, "client_001": 1})
    assert [ray_executor.ray.get(actor.info.remote()).pid for actor in executor._slots] == first
    assert len({*first, os.getpid()}) == 3 and [actor.device for actor in executor.actors] == ["cpu", "cpu"]

    def kill(round_index):
        if round_index == 1:
            os.kill(executor.actors[0].pid, signal.SIGKILL)
        if round_index == 3:
            threading.Timer(0.005, os.kill, (executor.actors[1].pid, signal.SIGKILL)).start()

    with caplog.at_level(logging.WARNING, "envs"):
        assert rounds_of(env, 5, kill) == reference
    assert f"FL actor 0 (process {first[0]}) died; its work of the round is done again" in caplog.text
    now = [ray_executor.ray.get(actor.info.remote()).pid for actor in executor._slots]
    assert now[0] != first[0] and now == [actor.pid for actor in executor.actors]
    assert now[1] != first[1] or _gone(first[1])
    env.close()


def _gone(pid):
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    return False


def test_actors_that_keep_dying_are_an_error(actor_hosts):
    executor = hosted_executor(actor_hosts, config(), 1)
    spawned = []

    def doomed(slot):
        spawned.append(slot)
        raise ray_executor.RayActorError

    executor._new_actor = doomed
    with pytest.raises(RuntimeError, match=r"FL actors died 4 times during one round's work, lately process \d+:"):
        executor._replace(0, ray_executor.RayActorError(), deaths=1)
    assert spawned == [0, 0, 0]


def test_more_than_ray_has_is_refused_at_once():
    with pytest.raises(ValueError, match=r"need 3 CPUs and 0 GPUs = 3 x .*, the Ray cluster has 2 CPUs and 0 GPUs"):
        new_executor(config(executor="ray", num_actors=3))
    with pytest.raises(ValueError, match=r"need 2 CPUs and 1 GPU = .*, the Ray cluster has 2 CPUs and 0 GPUs"):
        new_executor(config(executor="ray", num_actors=2, gpus_per_actor=0.5))


def test_auto_is_serial_without_gpus():
    assert isinstance(new_executor(config()), SerialExecutor)


def test_an_error_of_an_actor_reaches_the_user_as_it_was(actor_hosts):
    executor = hosted_executor(actor_hosts, config(), 1)
    with pytest.raises(AttributeError, match="'NoneType' object has no attribute 'round'"):
        executor._run([ray_executor._Call(0, "train", (np.zeros(1370, np.float32), [0], None, 1))])
    assert isinstance(executor, RayExecutor)
