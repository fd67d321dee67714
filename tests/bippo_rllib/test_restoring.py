"""What a restored algorithm takes over: all of a checkpoint that fits, nothing of one that is refused."""

from __future__ import annotations

import copy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from algorithms import config as toy_config
from algorithms import steps
from toy_envs import Workers

from bippo_rllib import Bippo, BippoConfig
from bippo_rllib.baselines.central.config import CentralPPOConfig
from bippo_rllib.baselines.central.env_runner import CentralEnvRunner
from bippo_rllib.baselines.cyclic import Cyclic
from bippo_rllib.baselines.oort import Oort
from bippo_rllib.learning.adam import StackedAdam
from bippo_rllib.learning.participation_buffer import ParticipationBuffer
from bippo_rllib.policies.actor_critic import ParameterLayout
from bippo_rllib.policies.policy_stack import PolicyStack
from bippo_rllib.runners.env_runner import BippoEnvRunner
from bippo_rllib.runners.episode_env_runner import EpisodeEnvRunner
from bippo_rllib.setting_error import SettingError

pytestmark = pytest.mark.usefixtures("ray_session")

RUNNERS = [BippoEnvRunner, EpisodeEnvRunner, CentralEnvRunner]
EVERYBODY = 100.0  #: a budget that all can take part in


class Forgetful(Workers):
    """Cannot be restored."""

    @property
    def get_state(self):
        raise AttributeError


class Picky(Workers):
    """Goes on in no other than its own episode, once it has one."""

    def set_state(self, state):
        if self.resets:
            raise ValueError("another episode is running")
        super().set_state(state)


class Naps(Workers):
    """Its last worker is not seen after the second step, and is there again after the third."""

    def step(self, actions):
        outcome = super().step(actions)
        if self.time == 2:
            outcome[0].pop(self.possible_agents[-1]), outcome[4].pop(self.possible_agents[-1])
        return outcome


def config(env: Any = Workers, runner: type = BippoEnvRunner, batch: int = 2, **keywords: Any) -> BippoConfig:
    base = CentralPPOConfig if runner is CentralEnvRunner else BippoConfig
    built = toy_config(env, base=base, **{"num_workers": 3, "rounds": 50, **keywords})
    return built.env_runners(env_runner_cls=runner).training(policy_batch_size=batch)


def ends(algo: Bippo) -> list[bool]:
    """Which of the steps that wait end their sequence."""
    learner = algo.learner
    if hasattr(learner, "policy"):
        return learner._ends
    return learner.buffer.get_state(np.array([0]))["ends"][0, : learner.buffer.counts[0]].tolist()


def restored(algo: Bippo, folder: Path) -> Bippo:
    return Bippo.from_checkpoint(algo.save_to_path(folder))


def forced(algo: Bippo, folder: Path) -> Bippo:
    algo.env_runner.sample(force_reset=True)
    return algo


def a_whole_episode(algo: Bippo, folder: Path) -> Bippo:
    algo.env_runner.sample(num_episodes=1)
    return algo


def an_earlier_state(algo: Bippo, folder: Path) -> Bippo:
    state = copy.deepcopy(algo.get_state())
    steps(algo, 3)
    algo.set_state(state)
    return algo


def only_the_learner(algo: Bippo, folder: Path) -> Bippo:
    path = algo.save_to_path(folder)
    forced(algo, folder), steps(algo, 3)
    algo.restore_from_path(f"{path}/learner_group", component="learner_group")
    return algo


@pytest.mark.parametrize("break_off", [restored, forced, a_whole_episode, an_earlier_state, only_the_learner])
@pytest.mark.parametrize("runner", RUNNERS)
def test_no_sequence_goes_on_in_another_episode(runner, break_off: Callable[[Bippo, Path], Bippo], tmp_path):
    algo = config(Forgetful, runner, batch=9, budget=EVERYBODY).build_algo()
    steps(algo, 2)
    assert ends(algo) == [False, False]
    algo = break_off(algo, tmp_path)
    steps(algo, 1)
    assert ends(algo) == [False, True, False]


@pytest.mark.parametrize("runner", RUNNERS)
def test_a_sequence_goes_on_where_its_episode_does(runner, tmp_path):
    algo = config(Workers, runner, batch=9, budget=EVERYBODY).build_algo()
    steps(algo, 2)
    again = restored(algo, tmp_path)
    steps(again, 1)
    assert ends(again) == [False, False, False]


def test_a_checkpoint_is_written_while_an_agent_pauses(tmp_path):
    algo = config(Naps, EpisodeEnvRunner, num_workers=4, budget=EVERYBODY).build_algo()
    steps(algo, 2)
    again = restored(algo, tmp_path)
    acted = {}
    for each in (algo, again):
        acted[each] = [(time, actions) for time, actions, _ in steps(each, 4)]
    assert acted[algo] == acted[again]
    assert ["worker_03" in actions for _, actions in acted[again]] == [False, True, True, True]
    seen = [each.bank.flat[each.bank.slots_of(["worker_00", "worker_01", "worker_02"])] for each in (algo, again)]
    assert seen[0].equal(seen[1])  # the open step of the one that paused is not continued, so its policy may differ


@pytest.mark.parametrize("load", [False, True])
@pytest.mark.parametrize("runner", RUNNERS[:2])
def test_a_checkpoint_after_a_policy_was_removed_is_restored(runner, load, tmp_path):
    algo = config(Workers, runner, num_workers=4, rounds=9, leaves_at=2).build_algo()
    steps(algo, 4)
    algo.remove_module("worker_00")
    if load:
        algo.load_policies(algo.save_to_path(tmp_path / "before"))
    path = algo.save_to_path(tmp_path / "checkpoint")
    others = [Bippo.from_checkpoint(path), algo.config.copy(copy_frozen=False).build_algo()]
    steps(others[1], 1)  # which has the policy, of a live agent even
    others[1].restore_from_path(path)
    assert [list(other.bank.slots) for other in others] == [["worker_01", "worker_02", "worker_03"]] * 2
    expected = steps(algo, 7)  # it comes back in the next episode
    assert [steps(other, 7) for other in others] == [expected] * 2
    assert "worker_00" in others[0].bank.slots and not others[0].bank.removed


def test_an_evaluation_knows_a_removed_policy_no_more():
    seen = {}
    for evaluated_before in (False, True):
        algo = config(num_workers=4, leaves_at=5, budget=EVERYBODY).build_algo()
        steps(algo, 5)
        if evaluated_before:
            algo.evaluate()
        algo.remove_module("worker_00")
        algo.evaluate()
        bank = algo.eval_env_runner.module
        seen[evaluated_before] = bank.get_state()["worker_00"]["actor.0.weight"].tolist()
    assert seen[True] == seen[False]


OTHER_PARTS = "use the policy_batch_size and observations"
REFUSED = [
    ({"num_workers": 3}, {"num_workers": 4}, "only in the checkpoint none, only here worker_03"),
    ({"batch": 2}, {"batch": 3}, OTHER_PARTS),
    ({"obs_dim": 3}, {"obs_dim": 4}, OTHER_PARTS),
    ({"hidden": 8}, {"hidden": 9}, r"policies have \d+ parameters each, .* use the hidden_size"),
    ({"runner": CentralEnvRunner}, {}, "has one central network, this algorithm a policy for each agent"),
    ({}, {"runner": CentralEnvRunner}, "has a policy for each agent, this algorithm one central network"),
    ({"runner": CentralEnvRunner}, {"runner": CentralEnvRunner, "hidden": 9}, "expected .*actor.0.weight.: .9, "),
    ({"env": Picky}, {"env": Picky}, "another episode is running"),
    ({"env": Picky}, {"env": Picky, "runner": EpisodeEnvRunner}, "another episode is running"),
    ({"env": Picky, "num_workers": 5}, {"env": Picky}, "another episode is running"),
]


@pytest.mark.parametrize(
    ("how", "saved", "here", "message"),
    [*(("path", *case) for case in REFUSED), *(("state", *case) for case in (REFUSED[0], REFUSED[6], REFUSED[8]))],
)
def test_a_refused_checkpoint_leaves_the_algorithm_as_it_was(how, saved, here, message, tmp_path):
    def built(hidden: int = 8, **settings: Any) -> Bippo:
        return config(**settings).training(hidden_size=hidden).build_algo()

    other, algo, twin = built(**saved), built(**here), built(**here)
    steps(other, 5), steps(algo, 3), steps(twin, 3)
    before = sorted(algo.bank.keys())
    with pytest.raises(ValueError, match=message):
        if how == "path":
            algo.restore_from_path(other.save_to_path(tmp_path))
        else:
            algo.set_state(copy.deepcopy(other.get_state()))
    assert sorted(algo.bank.keys()) == before
    assert algo.sampler.get_state() == twin.sampler.get_state()
    assert algo.training_iteration == 3
    assert steps(algo, 7) == steps(twin, 7)


@pytest.mark.parametrize(
    ("make", "broken"),
    [
        (lambda: ParticipationBuffer(2, 3, 4), {"rewards": np.zeros((2, 9), np.float32)}),
        (lambda: StackedAdam(2, 3), {"exp_avg_sq": np.zeros((2, 9), np.float32)}),
    ],
)
def test_a_part_that_refuses_a_state_has_taken_over_none_of_it(make, broken):
    slots, part = np.arange(2), make()
    before = part.get_state(slots)
    state = {name: np.ones_like(value) for name, value in before.items()} | broken
    with pytest.raises(ValueError, match="it was saved with"):
        part.set_state(state, slots)
    assert all(np.array_equal(value, before[name]) for name, value in part.get_state(slots).items())


@pytest.mark.parametrize("kind", [Oort, Cyclic])
def test_a_generator_of_another_kind_is_refused_by_a_ranking_as_a_whole(kind):
    ranking, other = kind(1), kind(2)
    other.order(["a", "b"], [{"num_samples": 9}] * 2, np.ones(2), 2.0)
    before = copy.deepcopy(ranking.get_state())
    with pytest.raises((TypeError, ValueError)):
        ranking.set_state({**other.get_state(), "rng": np.random.MT19937(0).state})
    assert ranking.get_state() == before


def test_a_component_that_does_not_exist_is_named(tmp_path):
    algo = config().build_algo()
    path = algo.save_to_path(tmp_path)
    with pytest.raises(ValueError, match=r"no component 'learner_group/learners'; .* \['learner'\]"):
        algo.restore_from_path(path, component="learner_group/learners")
    with pytest.raises(FileNotFoundError, match=r"there is no checkpoint at .*/nowhere"):
        algo.restore_from_path(tmp_path / "nowhere")


@pytest.mark.parametrize("rate", [7.0, -0.1, "0.5", True])
def test_policies_are_not_loaded_with_a_rate_out_of_range(rate, tmp_path):
    other, algo = config().build_algo(), config().build_algo()
    steps(other, 5)
    before = algo.bank.flat.clone(), algo.sampler.get_state()
    with pytest.raises(ValueError, match=f"epsilon is {rate!r}"):
        algo.load_policies(other.save_to_path(tmp_path), epsilon=rate)
    assert algo.bank.flat.equal(before[0]) and algo.sampler.get_state() == before[1]


def test_no_slot_is_lost_with_a_policy(tmp_path):
    """Neither where an id is given twice, nor in evaluations, nor with checkpoints that are refused."""
    stack = PolicyStack()
    stack.initialize(ParameterLayout(3, 2), 7)
    stack.add_policies(["x", "y", "x"])
    assert (stack.slots, stack.ids) == ({"x": 0, "y": 1}, ["x", "y"])

    algo = config(num_workers=4, leaves_at=5, budget=EVERYBODY).build_algo()
    steps(algo, 5)
    algo.remove_module("worker_00")
    rows = []
    for _ in range(4):
        algo.evaluate()  # in which the worker is back
        rows.append(len(algo.eval_env_runner.module.ids))
    assert rows == [4] * 4

    other, picky = config(Picky, num_workers=5).build_algo(), config(Picky).build_algo()
    steps(other, 2), steps(picky, 2)
    path, rows = other.save_to_path(tmp_path), []
    for _ in range(4):
        with pytest.raises(ValueError, match="another episode is running"):
            picky.restore_from_path(path)
        rows.append(len(picky.bank.ids))
    assert rows == [5] * 4 and sorted(picky.bank.slots.values()) == [0, 1, 2] and picky.bank.free == [3, 4]


def test_a_checkpoint_that_could_not_be_restored_is_not_written(tmp_path):
    algo = config().build_algo()
    with pytest.raises(SettingError, match=r"^use_msgpack is True; it must be False"):
        algo.save_to_path(tmp_path / "checkpoint", use_msgpack=True)
    assert not (tmp_path / "checkpoint").exists()
    assert Bippo.from_checkpoint(algo.save_to_path(tmp_path / "checkpoint", use_msgpack=False)).training_iteration == 0
