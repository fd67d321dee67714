"""A custom partition, reward and server step, and custom data: what they do, bit for bit, and what is refused."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch
from actor_hosts import hosted_executor
from custom_parts import modules_in
from rollouts import play, rollout

import envs
from envs.config import FederationConfig
from envs.data.datasets import load_dataset
from envs.data.partition import Partition
from envs.rng import keyed_seed
from envs.training.models import build_model, get_flat
from experiments import tune_bippo
from experiments.scenarios import SCENARIOS
from experiments.study.custom_modules import custom_modules
from experiments.study.study import Study

BAD = """
import numpy as np
import torch


def four(dataset, num_clients, seed):
    return [np.arange(4)] * 4


def parts(make):
    return lambda dataset, num_clients, seed: ([make(client, seed) for client in range(num_clients)],) * 2


twice, empty = parts(lambda client, seed: np.arange(4)), parts(lambda client, seed: np.arange(0))
beyond = parts(lambda client, seed: np.arange(10**6 + 4 * client, 10**6 + 4 * client + 4))
by_seed = parts(lambda client, seed: np.arange(20 * client, 20 * client + 10 + seed))


def few(dataset, num_clients, seed):
    return ([np.array([0])],) * 2


def raises(*anything):
    raise RuntimeError("not today")


def nan(*anything):
    return float("nan")


def double(weights, clients, num_samples, state):
    return weights.double()


def infinite(weights, clients, num_samples, state):
    return weights / 0


TEXT = "text"
"""
TINY = {"num_clients": 4, "rounds": 4, "local_epochs": 1, "budget_share": 1.0, "executor": "serial", "seed": 5}
OWN = {
    "partition": "parts:quantity_skew",
    "aggregation": "parts:fedadam",
    "reward": "parts:frugal",
    "proximal_mu": 0.1,
}


@pytest.fixture(autouse=True)
def parts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    with modules_in(tmp_path, monkeypatch, bad=BAD):
        yield


@pytest.mark.parametrize("reward", ["parts:frugal", "leave_one_out"])
def test_resumed_rounds_are_those_of_an_undisturbed_run(reward):
    undisturbed, resumed = (envs.parallel_env(**TINY | OWN | {"reward": reward}) for _ in range(2))
    rollout(undisturbed, 7, 2)
    resumed.set_state(undisturbed.get_state())
    assert play(undisturbed) == play(resumed)
    state = undisturbed.get_state()["server_state"]
    assert state.keys() == {"m", "v"} and len(state["m"]) == len(undisturbed.get_state()["weights"])


@pytest.mark.ray
@pytest.mark.parametrize("reward", ["parts:frugal", "shapley"])
def test_actors_give_the_same_bits(reward, ray_session, actor_hosts):
    config = FederationConfig(**(TINY | OWN | {"reward": reward}))
    actors = envs.FederatedRounds(config, lambda config: hosted_executor(actor_hosts, config, 2))
    assert rollout(envs.FederatedRounds(config), 7, 2) == rollout(actors, 7, 2)


def test_a_server_step_and_a_reward_are_what_numpy_finds():
    """Weights of one round, from those of each client alone, which a federation of the mean gives."""
    fields = TINY | {"train_samples": 20, "test_samples": 10}
    plain, env = (envs.parallel_env(**fields, **more) for more in ({}, {k: OWN[k] for k in ("aggregation", "reward")}))
    env.reset(seed=7)
    start = env.get_state()
    before = [info["accuracy"] for info in env.step({})[-1].values()]
    env.set_state(start)
    alone = []
    for client in (1, 3):
        plain.set_state(start)
        plain.step({f"client_{client:03d}": 1})
        alone.append(plain.get_state()["weights"].numpy().astype(np.float64))
    _, rewards, _, _, infos = env.step({"client_001": 1, "client_003": 1})
    old, adam = start["weights"].numpy().astype(np.float64), start["server_state"]
    change = np.mean(alone, axis=0) - old
    m, v = 0.9 * adam["m"].numpy() + 0.1 * change, 0.99 * adam["v"].numpy() + 0.01 * change**2
    np.testing.assert_allclose(env.get_state()["weights"].numpy(), old + 0.03 * m / (np.sqrt(v) + 1e-3), atol=2e-6)
    after, done = [info["accuracy"] for info in infos.values()], env.last_round
    expected = np.mean(after) - np.mean(before) - 0.1 * done.energy_j / done.budget_j
    assert set(rewards.values()) == {done.reward} and done.reward == pytest.approx(expected, abs=1e-12)
    initial = get_flat(build_model("digits_cnn", (1, 8, 8), 10, keyed_seed("initialisation", 7, 0))).numpy()
    assert np.abs(old - initial).max() <= 0.03 * 10  # round 0 is a step of the server's too


def test_the_proximal_term_keeps_clients_near_the_global_model_and_the_median_is_not_the_mean():
    moved, weights = [], []
    for proximal_mu, aggregation in ((0.0, "fedavg"), (1.0, "fedavg"), (10.0, "fedavg"), (0.0, "parts:median")):
        fields = {"train_samples": 20, "batch_size": 5, "proximal_mu": proximal_mu, "aggregation": aggregation}
        env = envs.parallel_env(**TINY, **fields, with_update_norm=True)
        moved.append(env.reset(seed=7)[1]["client_000"]["update_norm"])
        weights.append(env.get_state()["weights"])
    assert moved[0] == moved[3] > moved[1] > moved[2] > 0.0 and not torch.equal(weights[0], weights[3])


def test_natural_clients_hold_what_is_theirs():
    fields = TINY | {"dataset": "parts:series", "model": "parts:convolution", "partition": "natural", "num_clients": 12}
    env, data = envs.parallel_env(**fields), load_dataset("parts:series")
    partition = Partition.of(env.config, data, seed=3)
    for user in range(12):
        assert set(data.train_users[partition.train[user]].tolist()) == {user}
        assert set(data.test_users[partition.test[user]].tolist()) == {user}
    assert sum(map(len, partition.train)) == 900
    env.reset()
    for _ in range(4):
        env.step(dict.fromkeys(env.agents, 1))
    assert env.last_round.mean_accuracy > 0.5
    with pytest.raises(ValueError, match="num_clients is 13, but 12 users"):
        envs.FederatedRounds(FederationConfig(**(fields | {"num_clients": 13})))
    with pytest.raises(ValueError, match="num_clients is 13, but 12 users"):  # and nothing of settings not given
        envs.parallel_env(**(fields | {"num_clients": 13}))
    with pytest.raises(ValueError, match="no train_users"):
        envs.parallel_env(**(TINY | {"partition": "natural"}))
    with pytest.raises(ValueError, match=r"train_samples .*natural"):
        FederationConfig(**fields, train_samples=5)


def test_tables_are_learned_and_cost_what_their_numbers_do():
    fields = TINY | {"dataset": "parts:table", "model": "parts:perceptron", "partition": "iid", "train_samples": 40}
    env = envs.parallel_env(**fields)
    # 30 numbers of 32 bits a sample, 40 samples, at 700 MHz: half alpha 2e-28, eta 20; the model's 30*16+16+16*2+2.
    assert env.num_parameters == 530
    epoch_j = 2e-28 * 20 * 32 * 30 * 40 * 700e6**2
    upload_j = env.costs_j[0] - epoch_j
    assert upload_j == pytest.approx(envs.energy.round_energy_j(530, 0, 30, 1e9, epochs=0), rel=1e-9)
    env.reset()
    for _ in range(4):
        env.step(dict.fromkeys(env.agents, 1))
    assert env.last_round.mean_accuracy > 0.85
    with pytest.raises(ValueError, match="takes images"):
        envs.parallel_env(**(fields | {"model": "cnn"}))


@pytest.mark.parametrize(
    ("fields", "named"),
    [
        ({"partition": "bad:four"}, "list"),
        ({"partition": "bad:twice"}, "twice"),
        ({"partition": "bad:empty"}, "client 0"),
        ({"partition": "bad:beyond"}, "1256"),
        ({"partition": "bad:few"}, "of 1 clients|to 1 clients"),
        ({"partition": "bad:raises"}, "RuntimeError: not today"),
        ({"partition": "bad:by_seed"}, "seed"),
        ({"partition": "bad:TEXT"}, "str"),
        ({"aggregation": "bad:double"}, "torch.float64"),
        ({"aggregation": "bad:infinite"}, "finite"),
        ({"aggregation": "bad:raises"}, "RuntimeError: not today"),
        ({"aggregation": "bad:TEXT"}, "str"),
        ({"reward": "bad:nan"}, "nan"),
        ({"reward": "bad:raises"}, "RuntimeError: not today"),
        ({"reward": "bad:none"}, "has no none"),
    ],
    ids=lambda value: next(iter(value.values())) if isinstance(value, dict) else "",
)
def test_what_does_not_fit_is_refused_by_name(fields, named):
    with pytest.raises(ValueError, match=named) as error:
        env = envs.parallel_env(**(TINY | fields))
        env.reset(seed=7)
        env.step(dict.fromkeys(env.agents, 1))
    assert "\n" not in str(error.value) and next(iter(fields)) in str(error.value)


def test_a_study_checks_trusts_and_records_them(tmp_path, monkeypatch, capsys):
    started = []
    monkeypatch.setattr(tune_bippo, "run_study", lambda study: started.append(study) or [])
    settings = [f"env.{name}={value}" for name, value in OWN.items()]
    command = ["--methods", "bippo", "fedavg", "--results-dir", str(tmp_path / "r"), "--set", *settings]
    assert tune_bippo.main(command) == 0
    named = {f"env.{name}={OWN[name]}" for name in ("partition", "aggregation", "reward")}
    assert set(started[0].custom_code) == named
    assert set(custom_modules(started[0])) == {"parts"}
    assert custom_modules(Study(SCENARIOS["digits"], ("bippo",), (7,), 3, tmp_path)) == {}
    capsys.readouterr()
    assert tune_bippo.main([*command[: -len(settings)], "env.reward=parts:frugl"]) == 2
    assert "did you mean frugal" in capsys.readouterr().err
