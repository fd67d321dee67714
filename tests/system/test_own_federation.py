"""A partition, a reward, a server step and data of one's own: what they do, bit for bit, and what is refused."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch
from actor_hosts import hosted_executor
from own_parts import write_modules

import envs
from envs.config import FederationConfig
from envs.data.datasets import load_dataset
from envs.data.partition import Partition
from envs.rng import keyed_seed
from envs.training.models import build_model, get_flat
from experiments import tune_bippo
from experiments.scenarios import SCENARIOS
from experiments.study.own_modules import own_modules
from experiments.study.study import Study

BAD = """
import numpy as np
import torch


def four(dataset, num_clients, seed):
    return [np.arange(4)] * 4


def twice(dataset, num_clients, seed):
    return ([np.arange(4)] * num_clients,) * 2


def empty(dataset, num_clients, seed):
    return ([np.arange(0)] * num_clients,) * 2


def beyond(dataset, num_clients, seed):
    return ([np.arange(10**6 + 4 * c, 10**6 + 4 * c + 4) for c in range(num_clients)],) * 2


def few(dataset, num_clients, seed):
    return ([np.array([0])],) * 2


def by_seed(dataset, num_clients, seed):
    return ([np.arange(20 * c, 20 * c + 10 + seed) for c in range(num_clients)],) * 2


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
OWN = {"partition": "parts:quantity_skew", "aggregation": "parts:fedadam", "reward": "parts:frugal", "proximal_mu": 0.1}


@pytest.fixture(autouse=True)
def parts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    write_modules(tmp_path)
    (tmp_path / "bad.py").write_text(BAD)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    yield
    for name in ("mine", "parts", "bad"):
        sys.modules.pop(name, None)


def rounds_of(env, count):
    """What rounds return and leave, bit for bit; other clients train in each."""
    seen = []
    for _ in range(count):
        number = env.get_state()["round"]
        result = env.step({agent: (place + number) % 3 > 0 for place, agent in enumerate(env.agents)})
        weights = env.get_state()["weights"].numpy().tobytes()
        seen.append((repr((result, env.last_round.trained, env.last_round.reward)), weights))
    return seen


@pytest.mark.parametrize("reward", ["parts:frugal", "leave_one_out"])
def test_resumed_rounds_are_those_of_an_undisturbed_run(reward):
    fields = TINY | OWN | {"reward": reward}
    undisturbed, resumed = envs.parallel_env(**fields), envs.parallel_env(**fields)
    undisturbed.reset(seed=7)
    rounds_of(undisturbed, 2)
    resumed.set_state(undisturbed.get_state())
    assert rounds_of(undisturbed, 2) == rounds_of(resumed, 2)
    state = undisturbed.get_state()["server_state"]
    assert state.keys() == {"m", "v"} and len(state["m"]) == len(undisturbed.get_state()["weights"])


@pytest.mark.ray
@pytest.mark.parametrize("reward", ["parts:frugal", "shapley"])
def test_actors_give_the_same_bits(reward, ray_session, actor_hosts):
    config = FederationConfig(**(TINY | OWN | {"reward": reward}))
    federations = [
        envs.FederatedRounds(config),
        envs.FederatedRounds(config, lambda config: hosted_executor(actor_hosts, config, 2)),
    ]
    for env in federations:
        env.reset(seed=7)
    assert rounds_of(federations[0], 2) == rounds_of(federations[1], 2)


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


def test_the_proximal_term_keeps_clients_near_the_global_model():
    moved = []
    for proximal_mu in (0.0, 1.0, 10.0):
        env = envs.parallel_env(**TINY, train_samples=20, batch_size=5, proximal_mu=proximal_mu, with_update_norm=True)
        moved.append(env.reset(seed=7)[1]["client_000"]["update_norm"])
    assert moved[0] > moved[1] > moved[2] > 0.0


def test_the_median_is_not_the_mean():
    weights = []
    for aggregation in ("fedavg", "parts:median"):
        env = envs.parallel_env(**TINY, train_samples=20, aggregation=aggregation)
        env.reset(seed=7)
        weights.append(env.get_state()["weights"])
    assert not torch.equal(*weights)


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
    assert set(started[0].own_code) == named
    assert set(own_modules(started[0])) == {"parts"}
    assert own_modules(Study(SCENARIOS["digits"], ("bippo",), (7,), 3, tmp_path)) == {}
    capsys.readouterr()
    assert tune_bippo.main([*command[: -len(settings)], "env.reward=parts:frugl"]) == 2
    assert "did you mean frugal" in capsys.readouterr().err
