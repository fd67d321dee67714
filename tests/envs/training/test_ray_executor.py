"""Training in Ray actors: the same bits as serial whatever their number, and after actors die or clients fail."""

from __future__ import annotations

import logging
import math
import os
import signal

import numpy as np
import pytest
import torch
from actor_hosts import OneFails, hosted_executor
from rollouts import rollout

import envs
from envs.config import only_read
from envs.training import ray_executor, serial_executor
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


@pytest.mark.parametrize("num_actors", [1, 2, 3])
def test_same_bits_as_serial(reference, actor_hosts, num_actors):
    env = envs.FederatedRounds(config(), lambda config: hosted_executor(actor_hosts, config, num_actors))
    assert rounds_of(env, 5) == reference


@pytest.fixture(params=["serial", "ray"])
def failing(request, actor_hosts, monkeypatch):
    """Environments whose client 2 runs out of memory in round 2, and whose client 5 becomes NaN in round 3."""
    monkeypatch.setattr(serial_executor, "ClientWorker", OneFails)
    actors = lambda config: hosted_executor(actor_hosts, config, 2, OneFails)  # noqa: E731
    return lambda **fields: envs.FederatedRounds(config(**fields), actors if request.param == "ray" else SerialExecutor)


REPORTS = {"with_output_bias": True, "with_update_norm": True, "with_label_counts": True}
CHURN = {"churn_leave_rate": 0.3, "churn_return_rate": 0.5}


@pytest.mark.parametrize(
    "fields",
    [
        {"partition": "shards", "shards_per_client": 3},
        # Losses of two batches, of which the second is larger and comes first.
        {"partition": "iid", "train_samples": (200, 150, 400, 20, 20, 20), "budget_j": 2e-2},
        {"partition": "iid", "credit_clients": 2, "probing_epochs": 0.05, "reward": "leave_one_out"},
        # Test sets of 41 to 65 samples, as the split has too few of some classes.
        {"partition": "dirichlet_over_labels", "alpha": 0.05, "test_samples": 80},
        {**CHURN, "noisy_clients": (2,), "reward": "leave_one_out"},
        {"reward": "shapley", "credit_clients": 4, "update_profile_size": 7, **REPORTS},
        {"update_profile_size": 5, **CHURN},
    ],
)
def test_same_bits_in_every_executor(actor_hosts, monkeypatch, fields):
    fields = {"train_samples": 12, "on_overrun": "drop", "on_client_failure": "drop", "budget_j": 1e-2} | fields

    def episode(make, **more):
        return rollout(envs.FederatedRounds(config(**fields, **more), make), seed=3, rounds=5)

    hosted = [episode(lambda config, n=n: hosted_executor(actor_hosts, config, n, OneFails)) for n in (1, 2)]
    monkeypatch.setattr(serial_executor, "ClientWorker", OneFails)
    serial = episode(None, executor="serial")
    assert len(serial) > 3 and hosted == [serial, serial]


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


def test_a_client_that_fails_is_named(failing):
    env = failing()
    env.reset(seed=7)
    env.step({})
    with pytest.raises(ValueError, match="client 2 failed in round 2: MemoryError: no memory left"):
        env.step({"client_004": 1, "client_002": 1})
    # The round was not run; without the client it can be.
    env.step({"client_004": 1})
    assert env.last_round.trained == (4,)


def test_a_client_that_fails_is_dropped_but_has_spent_its_energy(failing, caplog):
    env = failing(on_client_failure="drop")
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


@pytest.mark.slow
def test_actors_live_through_all_rounds_and_are_replaced_when_killed(reference, caplog):
    """Two real actors, whose processes last from round 1 to 50; then one is killed between rounds, one at its work."""
    env = envs.FederatedRounds(config(executor="ray", num_actors=2, cpus_per_actor=0.25))
    rounds_of(env, 1)
    executor = env._federation._executor
    first = [actor.pid for actor in executor.actors]
    for _ in range(49):
        env.step({"client_000": 1, "client_001": 1})
    assert [ray_executor.ray.get(actor.info.remote()).pid for actor in executor._slots] == first
    assert len({*first, os.getpid()}) == 3 and [actor.device for actor in executor.actors] == ["cpu", "cpu"]
    submit, to_kill = executor._submit, []

    def submit_and_kill(call):
        submitted = submit(call)
        if call.slot == 1 and to_kill:
            os.kill(to_kill.pop(), signal.SIGKILL)
        return submitted

    def kill(round_index):
        if round_index == 1:
            os.kill(first[0], signal.SIGKILL)
        if round_index == 3:
            to_kill.append(first[1])

    executor._submit = submit_and_kill
    with caplog.at_level(logging.WARNING, "envs"):
        assert rounds_of(env, 5, kill) == reference
    for slot, pid in enumerate(first):
        assert f"FL actor {slot} (process {pid}) died; its work of the round is done again" in caplog.text
    now = [ray_executor.ray.get(actor.info.remote()).pid for actor in executor._slots]
    assert not {*now} & {*first} and now == [actor.pid for actor in executor.actors]
    env.close()


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


def test_new_actors_that_die_before_they_have_samples_count_as_dead_too(actor_hosts, monkeypatch):
    """Every call kills its actor, and every other new one dies at its start: four deaths, three starts."""
    executor = hosted_executor(actor_hosts, config(), 1)
    new_actor, started = executor._new_actor, []

    def get(references, timeout=None):
        if timeout is None or len(started) % 2 == 1:
            raise ray_executor.RayActorError
        return [executor.actors[0]]

    executor._new_actor = lambda slot: started.append(slot) or new_actor(slot)
    with monkeypatch.context() as patched:
        patched.setattr(ray_executor.ray, "get", get)
        with pytest.raises(RuntimeError, match="FL actors died 4 times during one round's work"):
            executor._run([ray_executor._Call(0, "info", ())])
    assert len(started) == ray_executor.MAX_DEATHS


def test_more_than_ray_has_is_refused_at_once_and_auto_is_serial_without_gpus():
    for settings, needs in (({"num_actors": 3}, "3 CPUs and 0 GPUs"), ({"gpus_per_actor": 0.5}, "2 CPUs and 1 GPU")):
        with pytest.raises(ValueError, match=f"need {needs} = .*, the Ray cluster has 2 CPUs and 0 GPUs"):
            new_executor(config(executor="ray", **{"num_actors": 2} | settings))
    assert isinstance(new_executor(config()), SerialExecutor)


def test_an_error_of_an_actor_reaches_the_user_as_it_was(actor_hosts):
    executor = hosted_executor(actor_hosts, config(), 1)
    with pytest.raises(AttributeError, match="'NoneType' object has no attribute 'round'"):
        executor._run([ray_executor._Call(0, "train", (np.zeros(1370, np.float32), [0], None, 1))])
    assert isinstance(executor, RayExecutor)
