"""The environment: API, determinism, energy, costs that change, state, and the real networks once."""

from __future__ import annotations

import copy
import math

import numpy as np
import pytest
import torch
from pettingzoo.utils import BaseParallelWrapper, aec_to_parallel, parallel_to_aec
from rollouts import plain, rollout
from tiny_data import publish_cifar_batches, write_idx, write_image_folders

import envs
from envs.agent_ids import client_names
from envs.config import only_read
from envs.rules.budget import BUDGET_TOLERANCE
from envs.rules.device_change import DeviceChange
from envs.rules.reward import accuracy_reward
from envs.training.serial_executor import SerialExecutor

# That actors train to the same bits is proved in `test_ray_executor`; here, what else an env does with its executor.
in_actors_too = pytest.mark.usefixtures("any_executor")

# Four clients, one of each kind of the paper; client 0 is cheap. The budget lets two train.
TINY = {"num_clients": 4, "train_samples": 20, "test_samples": 10, "rounds": 4, "budget_share": 0.6}


def tiny(**fields):
    return envs.parallel_env(**only_read(TINY | fields))


def choice(env, step):
    """Two agents of four, others each step."""
    return {agent: int((place + step) % 2 == 0) for place, agent in enumerate(env.agents)}


@pytest.mark.filterwarnings("error")
def test_wrappers_find_what_they_ask_for():
    env = BaseParallelWrapper(aec_to_parallel(parallel_to_aec(tiny(on_overrun="drop"))))
    assert env.render_mode is None and env.render() is None
    env.reset(seed=3)
    infos = env.step(dict.fromkeys(env.agents, 1))[4]
    assert {"cost", "budget", "dropped"} <= infos["client_000"].keys()
    while env.agents:
        env.step(dict.fromkeys(env.agents, 0))


def test_defaults_are_digits_with_20_clients():
    env = envs.parallel_env()
    assert env.possible_agents[0] == "client_000" and len(env.possible_agents) == 20
    assert env.config.dataset == "digits" and env.agents == []
    assert env.budget_j == pytest.approx(0.107 * env.costs_j.sum())
    assert [len(labels) for labels in env.labels] == [10] * 5 + [3] * 5 + [2] * 5 + [1] * 5


@pytest.mark.parametrize(("num_clients", "last"), [(1000, "client_999"), (1001, "client_1000")])
def test_ids_sort_as_text(num_clients, last):
    names = client_names(num_clients)
    assert names == sorted(names) and names[-1] == last


@in_actors_too
def test_a_rollout_depends_on_the_seed_and_the_episode_alone():
    env = tiny(with_loss=True, seed=7)
    reference, second = rollout(env), rollout(env)
    assert len(reference) == 5 and second != reference != rollout(env, seed=8)
    torch.manual_seed(1)
    np.random.seed(1)
    other = tiny(with_loss=True, seed=3)
    before = torch.random.get_rng_state()
    assert rollout(other, seed=7) == reference and rollout(other) == second
    assert torch.equal(torch.random.get_rng_state(), before)


def test_a_foreign_state_is_refused():
    env = tiny()
    env.reset()
    state = env.get_state()
    with pytest.raises(ValueError, match="4 clients, this env 5"):
        tiny(num_clients=5).set_state(state)
    state["weights"] = state["weights"][1:]
    with pytest.raises(ValueError, match="1369 weights, this env 1370"):
        env.set_state(state)


def test_a_round_that_fails_anywhere_leaves_the_last_one_and_can_be_repeated():
    """Whichever call of its executor fails, once: training, the evaluations for rewards, and those that follow."""
    undisturbed = tiny(with_loss=True, reward="leave_one_out")
    undisturbed.reset(seed=7)
    undisturbed.step(choice(undisturbed, 0))
    left = math.inf  # calls until one fails

    class FailsOnce(SerialExecutor):
        def __getattribute__(self, name):
            nonlocal left
            if name in ("train", "train_each", "accuracies", "losses"):
                left -= 1
                if left < 0:
                    raise RuntimeError("out of memory")
            return super().__getattribute__(name)

    env = envs.FederatedRounds(undisturbed.config, FailsOnce)
    env.reset(seed=7)
    env.step(choice(env, 0))
    before = plain(env.get_state())
    for calls in range(5):  # training, two models without one participant, accuracies, losses
        left = calls
        with pytest.raises(RuntimeError, match="out of memory"):
            env.step(choice(env, 1))
        assert plain(env.get_state()) == before
    left = 5
    assert plain(env.step(choice(env, 1))) == plain(undisturbed.step(choice(undisturbed, 1)))
    assert left == 0  # ``last_round`` has the seconds it took
    after, expected = ({**each.get_state(), "last_round": None} for each in (env, undisturbed))
    assert plain(after) == plain(expected)


def test_a_state_is_a_snapshot():
    env = tiny()
    env.reset(seed=7)
    state = env.get_state()
    before = plain(copy.deepcopy(state))
    env.step(choice(env, 0))
    assert plain(state) == before


def test_round_zero_is_reset_alone():
    env = tiny()
    observations, infos = env.reset(seed=7)
    assert env.last_round is None and list(observations) == list(infos) == env.possible_agents
    assert all(row[4] == 1.0 for row in observations.values())
    assert all(info["granted_j"] == 0.0 and not info["dropped"] for info in infos.values())
    # One epoch of five: the upload is charged in full, computation a fifth.
    upload_j = 0.5 * 32 * 1370 / (1e6 * math.log2(51))
    assert env.warmup_energy_j == pytest.approx(4 * upload_j + (env.costs_j.sum() - 4 * upload_j) / 5)


def test_a_round_by_the_books():
    env = tiny(with_loss=True)
    _, before = env.reset(seed=7)
    observations, rewards, terminations, truncations, infos = env.step({"client_000": 1, "client_003": 1})
    result = env.last_round
    assert (result.round, result.trained, result.dropped) == (1, (0, 3), ())
    assert result.energy_j == before["client_000"]["cost"] + before["client_003"]["cost"] <= result.budget_j
    accuracies = [info["accuracy"] for info in infos.values()]
    assert result.accuracies == tuple(accuracies) and result.mean_accuracy == np.mean(accuracies)
    previous = np.mean([info["accuracy"] for info in before.values()])
    assert set(rewards.values()) == {accuracy_reward(float(previous), result.mean_accuracy)}
    assert result.reward == rewards["client_002"] and result.fl_seconds > 0
    assert not any(terminations.values()) and not any(truncations.values())
    assert [infos[agent]["granted_j"] > 0 for agent in env.agents] == [True, False, False, True]
    assert [row[4] for row in observations.values()] == [1.0, 0.0, 0.0, 1.0]
    assert observations["client_001"][3] == pytest.approx(infos["client_001"]["cost"] / env.budget_j, rel=1e-6)
    assert all(info["loss"] > 0 and info["num_samples"] == 20 for info in infos.values())
    assert "loss" not in tiny().reset()[1]["client_000"]


@pytest.mark.parametrize("fields", [{"reward": "accuracy_target"}, {"reward": "leave_one_out", "probing_epochs": 0.01}])
def test_nobody_trains(fields):
    env = tiny(**fields)
    env.reset(seed=7)
    before = env.get_state()
    observations, rewards, *_ = env.step({})
    done = env.last_round
    assert set(rewards.values()) == set(done.rewards) == {done.reward} == {0.0} and done.trained == ()
    assert done.energy_j == done.probing_j and (done.probing_j > 0.0) == ("probing_epochs" in fields)
    assert torch.equal(env.get_state()["weights"], before["weights"])
    assert done.accuracies == tuple(before["accuracies"])
    assert all(row[4] == 0.0 for row in observations.values())


def test_learns_when_all_train():
    env = envs.parallel_env(budget_j=math.inf, rounds=6)
    env.reset(seed=7)
    while env.agents:
        env.step(dict.fromkeys(env.agents, 1))
    assert env.last_round.mean_accuracy > 0.8


def test_the_episode_ends_in_truncation():
    env = tiny(rounds=2)
    env.reset()
    *_, truncations, _ = env.step({})
    assert not any(truncations.values())
    _, _, terminations, truncations, infos = env.step({})
    assert all(truncations.values()) and not any(terminations.values()) and len(infos) == 4 and env.agents == []
    with pytest.raises(ValueError, match=r"call reset\(\) first"):
        env.step({})


def test_overrun_raises_and_the_round_can_be_repeated():
    env, twin = tiny(), tiny()
    env.reset(seed=7), twin.reset(seed=7)
    with pytest.raises(ValueError, match=r"costs .* J, the budget of the round is .* client_000 \("):
        env.step(dict.fromkeys(env.agents, 1))
    assert env.last_round is None
    assert plain(env.step(choice(env, 0))) == plain(twin.step(choice(twin, 0)))


def test_overrun_drops_in_agent_order_and_says_so():
    env = tiny(on_overrun="drop")
    env.reset(seed=7)
    *_, infos = env.step(dict.fromkeys(reversed(env.agents), 1))
    assert env.last_round.trained == (0, 1) and env.last_round.dropped == (2, 3)
    assert [info["dropped"] for info in infos.values()] == [False, False, True, True]
    assert env.last_round.energy_j <= env.budget_j * (1 + BUDGET_TOLERANCE)


@pytest.mark.parametrize(
    ("actions", "message"),
    [
        ({"client_009": 1}, "'client_009' is not a live agent; live are client_000 to client_003"),
        ({"client_001": 2}, "action of client_001 is 2"),
    ],
)
def test_bad_actions_are_refused(actions, message):
    env = tiny()
    env.reset()
    with pytest.raises(ValueError, match=message):
        env.step(actions)


def test_a_configured_device_change_is_announced_before_its_round():
    env = tiny(device_changes=(DeviceChange(2, 0, 1500e6), DeviceChange(3, 0, 700e6)))
    costs = [env.reset()[1]["client_000"]["cost"]]
    shares = []
    for _ in range(3):
        observations, *_, infos = env.step({"client_000": 1})
        assert env.last_round.energy_j == costs[-1]
        costs.append(infos["client_000"]["cost"])
        shares.append(observations["client_000"][3])
    cheap, expensive = costs[0], costs[1]
    assert costs == [cheap, expensive, cheap, cheap] and expensive > cheap
    assert shares == pytest.approx([expensive / env.budget_j, cheap / env.budget_j, cheap / env.budget_j], rel=1e-6)
    assert env.reset()[1]["client_000"]["cost"] == cheap


def test_set_cpu_freq_hz_reaches_the_next_round():
    assert tiny(device_changes=(DeviceChange(1, 0, 15e8),)).reset()[1]["client_000"]["cost"] > tiny().costs_j[0]
    env = tiny()
    _, infos = env.reset()
    old = infos["client_002"]["cost"]
    env.set_cpu_freq_hz(2, 3e9)
    assert env.costs_j[2] == old
    observations, *_, infos = env.step({"client_002": 1})
    assert env.last_round.energy_j == infos["client_002"]["granted_j"] == old
    assert infos["client_002"]["cost"] == env.costs_j[2] > old
    # Beyond every frequency of the configuration: the observation is cut off, the info is not.
    assert observations["client_002"][3] == env.observation_space("client_002").high[3]
    for client, freq_hz, named in ((4, 1e9, "client is 4"), (0, math.nan, "freq_hz is nan")):
        with pytest.raises(ValueError, match=named):
            env.set_cpu_freq_hz(client, freq_hz)


def test_a_device_that_is_not_there():
    with pytest.raises(ValueError, match=r"device is 'cuda:99'; it cannot be used .*device='cpu'"):
        tiny(device="cuda:99").reset()


@pytest.mark.parametrize("seed", [-1, 1.5, True])
def test_bad_seed(seed):
    with pytest.raises(ValueError, match=f"seed is {seed}"):
        tiny().reset(seed=seed)


def test_cnn_on_fashion_mnist_files(tmp_path):
    write_idx(tmp_path, per_class=40)
    env = tiny(dataset="fashion_mnist", data_dir=str(tmp_path), local_epochs=1)
    env.reset(seed=7)
    env.step({"client_000": 1})
    assert env.num_parameters == 431_080 and 0.0 <= env.last_round.mean_accuracy <= 1.0


def test_resnet18_on_cifar_files(tmp_path, monkeypatch):
    publish_cifar_batches(monkeypatch, tmp_path, per_class=7)
    sizes = {"num_clients": 2, "train_samples": 4, "test_samples": 4, "local_epochs": 1, "budget_share": 1.0}
    env = tiny(dataset="cifar10", data_dir=str(tmp_path), partition="dirichlet_over_labels", rounds=1, **sizes)
    env.reset(seed=7)
    before = env.get_state()["weights"]
    env.step({"client_000": 1, "client_001": 1})
    after = env.get_state()["weights"]
    assert env.num_parameters == 11_173_962 and len(after) == 11_173_962 + 9_600
    # Parameters and batch-norm statistics, which lie behind them, have both moved.
    assert not torch.equal(before[:11_173_962], after[:11_173_962])
    assert not torch.equal(before[11_173_962:], after[11_173_962:])


@pytest.mark.parametrize(
    ("train_samples", "batch_size", "client"), [(33, None, 0), ((34, 34, 65, 34), None, 2), (5, 1, 0)]
)
def test_a_last_batch_of_one_is_refused_before_anything_trains(train_samples, batch_size, client):
    # ResNet-18 makes one pixel of 8x8, and batch norm takes no single value.
    odd = {"model": "resnet18", "train_samples": train_samples, "batch_size": batch_size}
    with pytest.raises(ValueError, match=rf"client_00{client} has .* its last one has one sample: .* change train_sa"):
        tiny(**odd)
    tiny(**odd, on_client_failure="drop")
    before = torch.random.get_rng_state()
    tiny(**odd | {"model": None})
    tiny(model="resnet18", train_samples=34)
    assert torch.equal(torch.random.get_rng_state(), before)


def test_own_image_folder(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    write_image_folders(tmp_path / "data", classes=3, per_class=30, size=16)
    env = tiny(dataset="image_folder", data_dir=str(tmp_path / "data"), train_samples=12, test_samples=6)
    env.reset(seed=7)
    env.step({"client_000": 1})
    assert env.last_round.trained == (0,)


def test_unknown_names_of_the_package():
    with pytest.raises(AttributeError, match="has no attribute 'nothing'"):
        _ = envs.nothing
    assert set(envs.__all__) <= set(dir(envs))
