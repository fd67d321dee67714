"""BippoConfig and Bippo under RLlib: selections, updates, checkpoints, connectors, refused settings."""

from __future__ import annotations

import copy
import math

import gymnasium as gym
import numpy as np
import pytest
import torch
from ray.rllib.connectors.connector_v2 import ConnectorV2
from ray.rllib.core.rl_module.rl_module import RLModule
from ray.rllib.env.multi_agent_env import MultiAgentEnv
from torch.utils._python_dispatch import TorchDispatchMode
from toy_envs import Bandit, Workers

from bippo_rllib import Bippo, BippoConfig, BudgetSampler, BudgetSamplerConnector
from bippo_rllib.baselines.central.config import CentralPPOConfig
from bippo_rllib.learning.ppo_update import PPOSettings
from bippo_rllib.runners.env_runner import BippoEnvRunner
from bippo_rllib.runners.episode_env_runner import EpisodeEnvRunner
from bippo_rllib.selection.connector_columns import SUGGESTION

pytestmark = pytest.mark.usefixtures("ray_session")


def config(env=Workers, seed: int = 7, **keywords) -> BippoConfig:
    return BippoConfig().environment(env, env_config=keywords).debugging(seed=seed, log_level="ERROR")


def snapshot(algo: Bippo) -> dict[str, torch.Tensor]:
    learner = algo.learner
    return {"weights": algo.bank.flat.clone(), **{name: t.clone() for name, t in vars(learner.adam.all).items()}}


def same(a: dict[str, torch.Tensor], b: dict[str, torch.Tensor], slots: list[int] | None = None) -> bool:
    pick = slice(None) if slots is None else slots
    return all(torch.equal(a[name][pick], b[name][pick]) for name in a)


def test_train_is_one_step_within_the_budget_and_updates_only_full_batches():
    algo = config(num_workers=6, rounds=100).build_algo()
    counts = np.zeros(6, dtype=int)
    for step in range(1, 13):
        before = snapshot(algo)
        algo.train()
        env = algo.parallel_env
        assert env.time == step
        actions = np.array([env.last_actions[a] for a in env.possible_agents])
        costs = np.array([1.0, 2.0] * 3)
        assert actions @ costs <= 3.0
        assert (actions @ costs + costs[actions == 0] > 3.0).all()  # nothing left out would fit
        counts += actions
        updated = np.flatnonzero(counts == 2)
        counts[updated] = 0
        after, others = snapshot(algo), [n for n in range(6) if n not in updated]
        assert same(before, after, others)
        assert all(not torch.equal(before["weights"][n], after["weights"][n]) for n in updated)
    assert algo.learner.buffer.counts.tolist() == counts.tolist()
    algo.stop()


def test_episodes_follow_each_other_and_batches_wait_across_them():
    algo = config(num_workers=3, rounds=3).build_algo()
    results = [algo.train() for _ in range(7)]
    assert algo.parallel_env.resets == 3
    assert algo.parallel_env.time == 1
    assert results[2]["env_runners"]["episode_len_mean"] == 3
    assert results[6]["learners"]["__all_modules__"]["num_env_steps_trained_lifetime"] == 7
    algo.stop()


def test_an_agent_leaves_in_mid_episode():
    algo = config(num_workers=4, rounds=6, leaves_at=2).build_algo()
    for _ in range(8):
        algo.train()
    assert algo.parallel_env.resets == 2
    algo.stop()


def test_the_same_seed_gives_the_same_run_and_another_does_not():
    def run(seed: int) -> dict[str, torch.Tensor]:
        algo = config(seed=seed, num_workers=5, rounds=50).build_algo()
        for _ in range(15):
            algo.train()
        algo.stop()
        return snapshot(algo)

    first = run(1)
    assert same(first, run(1))
    assert not same(first, run(2))


def test_a_checkpoint_restores_everything_and_goes_on_in_mid_episode(tmp_path):
    algo = config(num_workers=5, rounds=50).build_algo()
    for _ in range(9):
        algo.train()
    assert algo.learner.buffer.counts.sum() > 0  # something waits
    path = algo.save_to_path(tmp_path / "checkpoint")
    restored = Bippo.from_checkpoint(path)
    assert restored.sampler.get_state() == algo.sampler.get_state()
    assert same(snapshot(algo), snapshot(restored))
    slots = np.arange(5)
    saved, loaded = (a.learner.buffer.get_state(slots) for a in (algo, restored))
    assert all(np.array_equal(saved[name], loaded[name]) for name in saved)
    for _ in range(6):
        algo.train(), restored.train()
        assert restored.parallel_env.last_actions == algo.parallel_env.last_actions
    assert restored.parallel_env.time == 15
    assert same(snapshot(algo), snapshot(restored))
    single = RLModule.from_checkpoint(f"{path}/learner_group/learner/rl_module")["worker_03"]
    fresh = Bippo.from_checkpoint(path)
    for name, value in fresh.get_module("worker_03").state_dict().items():
        assert torch.equal(single.state_dict()[name], value)
        assert torch.equal(value, fresh.bank.layout.views(fresh.bank.flat)[name][3])
    for each in (algo, restored, fresh):
        each.stop()


def test_a_checkpoint_of_other_clients_is_refused(tmp_path):
    algo = config(num_workers=3).build_algo()
    algo.train()
    path = algo.save_to_path(tmp_path / "checkpoint")
    other = config(num_workers=4).build_algo()
    with pytest.raises(ValueError, match="only in the checkpoint none, only here worker_03;"):
        other.restore_from_path(path)
    algo.stop(), other.stop()


@pytest.mark.parametrize("keywords", [{"leaves_at": 3}, {"obs_dim": 5, "budget": 7.0}])
def test_arrays_and_rllibs_own_episodes_give_the_same_run_bit_for_bit(keywords):
    on_arrays = config(num_workers=9, rounds=7, **keywords)
    on_episodes = on_arrays.copy().env_runners(env_runner_cls=EpisodeEnvRunner)
    arrays, episodes = on_arrays.build_algo(), on_episodes.build_algo()
    for _ in range(28):
        results = arrays.train(), episodes.train()
        assert arrays.parallel_env.last_actions == episodes.parallel_env.last_actions
        assert arrays.parallel_env.time == episodes.parallel_env.time
    assert same(snapshot(arrays), snapshot(episodes))
    assert arrays.sampler.get_state() == episodes.sampler.get_state()
    ours, stock = (r["env_runners"]["episode_return_mean"] for r in results)
    assert ours == stock
    arrays.stop(), episodes.stop()


class Unlucky(Workers):
    """What worker_01 does comes to nothing, for the reason that a flag names."""

    def __init__(self, flag: str, **keywords):
        super().__init__(**keywords)
        self._flag = flag

    def _infos(self):
        infos = super()._infos()
        for agent in infos:
            infos[agent][self._flag] = agent == "worker_01"
        return infos


@pytest.mark.parametrize("named", [{}, {"failed": "lost"}, {"dropped": "lost"}])
@pytest.mark.parametrize("flag", ["failed", "dropped", "lost"])
@pytest.mark.parametrize("runner", [BippoEnvRunner, EpisodeEnvRunner])
def test_a_step_that_was_lost_or_turned_down_is_not_learned_from(runner, flag, named):
    settings = config(Unlucky, flag=flag, num_workers=2, budget=3.0, rounds=9).info_keys(**named)
    algo = settings.env_runners(env_runner_cls=runner).build_algo()
    for _ in range(4):
        learned = algo.train()["learners"]["__all_modules__"]
        assert algo.parallel_env.last_actions == {"worker_00": 1, "worker_01": 1}
    counts = flag in (settings.failed_key, settings.dropped_key)
    # Eight Adam steps for every two steps learned from.
    assert algo.learner.adam.all.steps.tolist() == [16, 0 if counts else 16]
    assert learned["num_participants"] == 2 - counts
    algo.stop()


def test_rllibs_own_episodes_are_resumed_too(tmp_path):
    algo = config(num_workers=4, rounds=6).env_runners(env_runner_cls=EpisodeEnvRunner).build_algo()
    for _ in range(6):  # an episode has just ended
        algo.train()
    restored = Bippo.from_checkpoint(algo.save_to_path(tmp_path / "checkpoint"))
    for _ in range(9):
        algo.train(), restored.train()
        assert restored.parallel_env.last_actions == algo.parallel_env.last_actions
    assert restored.parallel_env.time == algo.parallel_env.time == 3
    assert same(snapshot(algo), snapshot(restored))
    algo.stop(), restored.stop()


class ZeroSuggestion(ConnectorV2):
    """A user's connector: keeps one agent from being suggested."""

    agent: str

    def __call__(self, *, batch, **kwargs):
        for key in batch[SUGGESTION]:
            if key[1] == self.agent:
                batch[SUGGESTION][key] = [np.float32(0.0)]
        return batch


@pytest.mark.parametrize(("zeroed", "picked"), [("worker_00", "worker_02"), ("worker_02", "worker_00")])
def test_a_users_connector_before_the_sampler_counts(zeroed, picked):
    connector = ZeroSuggestion()
    connector.agent = zeroed
    # Two workers cost 1 and two cost 2; with a budget of 1 it is one or the other of the cheap ones.
    greedy = config(num_workers=4, rounds=100, budget=1.0).selection(sampler="greedy")
    algo = greedy.env_runners(module_to_env_connector=lambda env, spaces: connector).build_algo()
    names = [type(each).__name__ for each in algo.env_runner.module_to_env.connectors]
    assert names == ["ZeroSuggestion", "BudgetSamplerConnector"]
    for _ in range(4):
        algo.train()
        assert [a for a, act in algo.parallel_env.last_actions.items() if act] == [picked]
    algo.stop()


def test_a_sample_has_as_many_steps_as_asked_for():
    runner = config(num_workers=2, rounds=3).build_algo().env_runner
    assert [len(runner.sample(num_timesteps=n)) for n in (0, 1, 2)] + [len(runner.sample())] == [0, 1, 2, 1]
    assert [len(runner.sample(num_episodes=n)) for n in (0, 1, 2)] == [0, 3, 6]
    for wrong in ({"num_timesteps": -1}, {"num_episodes": -1}, {"num_timesteps": 1, "num_episodes": 1}):
        with pytest.raises(ValueError, match="give num_timesteps or num_episodes, at least 0"):
            runner.sample(**wrong)


def test_without_the_sampler_the_run_is_refused():
    algo = config().build_algo()
    algo.env_runner.module_to_env.remove("BudgetSamplerConnector")
    with pytest.raises(ValueError, match="no BudgetSamplerConnector in the module-to-env pipeline"):
        algo.train()
    algo.stop()


def test_a_users_own_sampler_connector_is_not_doubled():
    own = BudgetSamplerConnector(BudgetSampler("greedy"))
    algo = config().env_runners(module_to_env_connector=lambda env, spaces: [own]).build_algo()
    assert sum(isinstance(p, BudgetSamplerConnector) for p in algo.env_runner.module_to_env.connectors) == 1
    assert algo.sampler.strategy == "greedy"
    algo.stop()


def test_evaluating_without_exploration_neither_decays_nor_learns():
    algo = config(num_workers=4, rounds=3).build_algo()
    algo.train()
    before, epsilon = snapshot(algo), algo.sampler.epsilon
    algo.env_runner.sample(num_episodes=1, explore=False)
    assert algo.sampler.epsilon == epsilon
    assert same(before, snapshot(algo))
    algo.stop()


def test_nothing_is_learned_where_no_policy_is_to_be_trained():
    algo = config(num_workers=4).selection(sampler="random").multi_agent(policies_to_train=[]).build_algo()
    before = snapshot(algo)
    for _ in range(6):
        algo.train()
    assert same(before, snapshot(algo))
    algo.stop()


class CallCounter(TorchDispatchMode):
    calls = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.calls += 1
        return func(*args, **(kwargs or {}))


def test_no_loop_over_policies_in_the_forward_pass():
    def calls(num_workers: int) -> int:
        algo = (
            config(num_workers=num_workers, rounds=100).training(hidden_size=8).selection(sampler="greedy").build_algo()
        )
        algo.train()
        with CallCounter() as counter:
            algo.env_runner.sample()
        algo.stop()
        return counter.calls

    assert calls(20) == calls(1000) > 5


def test_adding_and_removing_a_policy_touches_no_other(tmp_path):
    algo = config(num_workers=3, rounds=100).build_algo()
    for _ in range(8):
        algo.train()
    before = snapshot(algo)
    for n in range(97, 100):
        algo.add_module(f"worker_{n}")
    algo.remove_module("worker_97")
    assert algo.bank.slots["worker_99"] == 5
    assert same(before, snapshot(algo), [0, 1, 2])
    for policy_id, slot in algo.bank.slots.items():
        weight = algo.get_module(policy_id).actor[0].weight
        assert weight.data_ptr() == algo.bank.flat[slot].data_ptr()
    assert not torch.equal(algo.get_module("worker_98").actor[0].weight, algo.get_module("worker_99").actor[0].weight)
    restored = Bippo.from_checkpoint(algo.save_to_path(tmp_path / "checkpoint"))
    for _ in range(6):
        algo.train(), restored.train()
    assert algo.parallel_env.time == restored.parallel_env.time == 14
    for policy_id in algo.bank.slots:
        ours, theirs = (a.get_module(policy_id).state_dict() for a in (algo, restored))
        assert all(torch.equal(ours[name], theirs[name]) for name in ours)
    algo.stop(), restored.stop()


class Newcomer(Workers):
    """In its third step a worker appears that nobody announced."""

    def step(self, actions):
        outcome = super().step(actions)
        if self.time == 3:
            self.agents.append("worker_77")
            outcome[0]["worker_77"], outcome[4]["worker_77"] = np.ones(3, np.float32), {"cost": 1.0, "budget": 3.0}
        return outcome


def test_an_agent_nobody_announced_gets_a_policy_of_its_own():
    algo = config(Newcomer, num_workers=3, rounds=100).build_algo()
    for _ in range(3):
        algo.train()
    assert list(algo.bank.slots) == ["worker_00", "worker_01", "worker_02", "worker_77"]
    for _ in range(20):
        before = snapshot(algo)
        algo.train()
        acted = [algo.parallel_env.last_actions[a] for a in algo.bank.slots]
        assert same(before, snapshot(algo), [n for n in range(4) if not acted[n]])
    assert algo.learner.adam.all.steps[3] > 0
    algo.stop()


def test_keywords_of_the_environment_can_be_set_later():
    changed = (
        BippoConfig().environment(Workers, env_config={"num_workers": 3}).environment(env_config={"num_workers": 5})
    )
    algo = changed.debugging(log_level="ERROR").build_algo()
    assert len(algo.bank) == 5
    algo.stop()


def test_metrics_are_aggregates_and_per_policy_on_request():
    names = {}
    for per_policy in (False, True):
        algo = config(num_workers=6, rounds=100).training(per_policy_metrics=per_policy).build_algo()
        results = [algo.train()["learners"] for _ in range(8)]
        algo.stop()
        updated = next(r for r in results if r["__all_modules__"]["num_policies_updated"] > 0)
        everything = updated["__all_modules__"]
        assert everything["advantage_min"] <= everything["advantage_mean"] <= everything["advantage_max"]
        names[per_policy] = {name for result in results for name in result}
    assert names[False] == {"__all_modules__"}
    assert {"__all_modules__", "worker_00"} <= names[True]


def test_a_step_without_an_update_has_no_losses_of_an_earlier_one(tmp_path):
    algo = config(num_workers=3, budget=2.0).training(policy_batch_size=3).build_algo()
    found = [algo.train()["learners"]["__all_modules__"] for _ in range(20)]
    restored = Bippo.from_checkpoint(algo.save_to_path(tmp_path / "checkpoint"))
    found += [restored.train()["learners"]["__all_modules__"] for _ in range(3)]
    algo.stop()
    restored.stop()
    assert not found[20]["num_policies_updated"]
    first = next(i for i, values in enumerate(found) if values["num_policies_updated"])
    assert "advantage_mean" not in found[0] and first > 0
    later = [(bool(values["num_policies_updated"]), math.isnan(values["advantage_mean"])) for values in found[first:]]
    assert {(True, False), (False, True)} == set(later)


def test_an_update_takes_every_setting_from_the_config():
    assert PPOSettings.of(BippoConfig()) == PPOSettings()
    settings = {"lr": 0.5, "num_epochs": 3, "gamma": 0.7, "lambda_": 0.6, "clip_param": 0.4, "vf_loss_coeff": 0.3}
    settings |= {"vf_clip_param": 9.0, "entropy_coeff": 0.1, "grad_clip": 2.0, "use_critic": False}
    assert PPOSettings.of(BippoConfig().training(**settings)) == PPOSettings(**settings)


class NoCost(Workers):
    def _infos(self):
        return {a: {"price": 1.0, "budget": 3.0} for a in self.agents}


class NegativeCost(Workers):
    def _infos(self):
        return {a: {"cost": -1.0 if a == "worker_01" else 1.0, "budget": 3.0} for a in self.agents}


class TwoBudgets(Workers):
    def _infos(self):
        return {a: {"cost": 1.0, "budget": float(a[-1]) + 1.0} for a in self.agents}


class ThreeActions(Workers):
    def __init__(self):
        super().__init__()
        import gymnasium as gym

        self._actions = gym.spaces.Discrete(3)


class MixedObservations(Workers):
    def observation_space(self, agent):
        import gymnasium as gym

        return gym.spaces.Box(-10, 10, (3 + int(agent[-1]),), np.float32)


class NanReward(Workers):
    def step(self, actions):
        outcome = super().step(actions)
        return (outcome[0], dict.fromkeys(outcome[1], float("nan")), *outcome[2:])


class ForgottenObservation(Workers):
    def step(self, actions):
        outcome = super().step(actions)
        for agent in [a for a, act in actions.items() if act]:
            del outcome[0][agent]
        return outcome


class ForgottenReward(Workers):
    def step(self, actions):
        outcome = super().step(actions)
        for agent in [a for a, act in actions.items() if not act]:
            del outcome[1][agent]
        return outcome


class Leaves(Workers):
    """All see worker_00 off after two steps, which says nothing more."""

    def __init__(self, terminated: bool, **keywords):
        super().__init__(leaves_at=2, **keywords)
        self._terminated = terminated

    def step(self, actions):
        observations, rewards, terminated, truncated, infos = super().step(actions)
        if truncated.get("worker_00"):
            observations.pop("worker_00", None), infos.pop("worker_00", None)
            if self._terminated:
                truncated["worker_00"], terminated["worker_00"] = False, True
        return observations, rewards, terminated, truncated, infos


@pytest.mark.parametrize("budget", [1.0, 100.0])
def test_who_is_terminated_needs_no_last_observation(budget):
    built = config(Leaves, terminated=True, rounds=4, budget=budget)
    arrays = built.build_algo()
    episodes = built.copy(copy_frozen=False).env_runners(env_runner_cls=EpisodeEnvRunner).build_algo()
    for _ in range(10):
        arrays.train(), episodes.train()
        assert arrays.parallel_env.last_actions == episodes.parallel_env.last_actions
    assert same(snapshot(arrays), snapshot(episodes))
    arrays.stop(), episodes.stop()


LEFT_UNSEEN = "^'worker_00' was truncated without a last observation, .* or terminate it$"
NO_REWARD = "^the reward of 'worker_0.' is missing; return one for every agent that acted$"


@pytest.mark.parametrize("runner", [BippoEnvRunner, EpisodeEnvRunner])
@pytest.mark.parametrize(
    ("env", "keywords", "message"),
    [
        (Leaves, {"terminated": False, "budget": 100.0}, LEFT_UNSEEN),
        (Leaves, {"terminated": False, "budget": 0.0}, LEFT_UNSEEN),  # it took no part in the step
        (ForgottenReward, {"budget": 0.0}, NO_REWARD),
    ],
)
def test_both_runners_say_what_is_missing_of_an_agent_whoever_takes_part(env, keywords, message, runner):
    algo = config(env, **keywords).env_runners(env_runner_cls=runner).build_algo()
    with pytest.raises(ValueError, match=message):
        for _ in range(3):
            algo.train()
    algo.stop()


@pytest.mark.parametrize("config_class", [BippoConfig, CentralPPOConfig])
@pytest.mark.parametrize("prior", [{}, {"prior_key": "budget", "prior_weight": 2.0}])
def test_a_policy_that_has_diverged_is_named(config_class, prior):
    diverging = config_class().environment(Workers, env_config={"rounds": 50}).debugging(seed=7, log_level="ERROR")
    algo = diverging.training(lr=1e20).selection(sampler="greedy", **prior).build_algo()
    who = "the policy of 'worker_0.'" if config_class is BippoConfig else "the central network"
    with pytest.raises(ValueError, match=f"^{who} has diverged: its outputs are not finite; train with a lower lr, or"):
        for _ in range(20):
            algo.train()
    algo.stop()


class WrongShape(Workers):
    def _observations(self):
        return {a: np.zeros(2, np.float32) for a in self.agents}


@pytest.mark.parametrize(
    ("env", "message"),
    [
        (NoCost, r"'worker_00' has no 'cost' \(found: budget, price\).*info_keys\(cost=...\)"),
        (NegativeCost, "worker_01 has cost -1.0"),
        (TwoBudgets, r"different budgets \(1.0 and 4.0"),
        (ThreeActions, r"must be Discrete\(2\)"),
        (NanReward, "the reward of 'worker_0.' is nan"),
        (
            ForgottenObservation,
            "the observation of 'worker_0.' is missing: it participated",
        ),
        (WrongShape, r"the observation of 'worker_00' is .*of shape \(3,\)"),
        (MixedObservations, "give all agents observations of one shape"),
    ],
)
def test_environments_that_do_not_fit_are_refused(env, message):
    with pytest.raises(ValueError, match=message):
        BippoConfig().environment(env).debugging(log_level="ERROR").build_algo().train()


def test_other_info_keys_and_units_work():
    algo = BippoConfig().environment(NoCost).info_keys(cost="price").debugging(seed=0, log_level="ERROR").build_algo()
    algo.train()
    assert sum(algo.parallel_env.last_actions.values()) == 3
    algo.stop()


def test_two_live_agents_on_one_policy_are_refused():
    shared = config().multi_agent(policies={"shared"}, policy_mapping_fn=lambda agent_id, *args, **kwargs: "shared")
    algo = shared.build_algo()
    with pytest.raises(ValueError, match="4 agents act with policy 'shared'"):
        algo.train()
    algo.stop()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda c: c.env_runners(num_env_runners=1), "num_env_runners=1 instead of 0 is not supported"),
        (lambda c: c.env_runners(num_envs_per_env_runner=2), "num_envs_per_env_runner=2"),
        (lambda c: c.learners(num_learners=1), "num_learners=1"),
        (lambda c: c.training(train_batch_size_per_learner=4), "train_batch_size_per_learner=4"),
        (lambda c: c.training(use_kl_loss=True), "use_kl_loss=True"),
        (lambda c: c.training(minibatch_size=1), "minibatch_size=1"),
        (lambda c: c.training(lr=[[0, 0.1], [10, 0.01]]), "lr=.* is a schedule"),
        (lambda c: c.selection(sampler="best"), "choose one of"),
        (lambda c: c.selection(epsilon=2.0), "epsilon is 2.0"),
        (lambda c: c.training(policy_batch_size=0), "policy_batch_size is 0"),
        (lambda c: c.training(hidden_size=1.5), "hidden_size is 1.5; it must be an integer of at least 1$"),
        (lambda c: c.training(lr=0.0), "lr is 0.0; it must be a number above 0$"),
        (lambda c: c.training(lr=float("nan")), "lr is nan"),
        (lambda c: c.training(gamma=2.0), "gamma is 2.0; it must be a number at least 0 and at most 1$"),
        (lambda c: c.training(lambda_=-0.1), "lambda_ is -0.1"),
        (lambda c: c.training(clip_param=-1.0), "clip_param is -1.0"),
        (lambda c: c.training(grad_clip=0.0), "grad_clip is 0.0"),
        (lambda c: c.training(vf_clip_param=0.0), "vf_clip_param is 0.0"),
        (lambda c: c.training(entropy_coeff=-1.0), "entropy_coeff is -1.0"),
        (lambda c: c.env_runners(env_to_module_connector=lambda env, spaces, device: None), "EpisodeEnvRunner"),
    ],
)
def test_settings_that_would_not_be_honoured_are_refused(change, message):
    with pytest.raises(ValueError, match=message):
        change(config()).validate()


@pytest.mark.parametrize("seed", [7, 28, 42])
def test_bippo_finds_the_good_client_and_only_because_of_the_rewards(seed):
    def margin(rewards: list[float] | None) -> tuple[float, list[float]]:
        algo = config(Bandit, seed=seed, rewards=rewards).build_algo()
        for _ in range(60):
            algo.train()
        observation = torch.tensor([[0.5, 1.0, 0.5, 0.5, 1.0]])
        suggestions = [
            algo.bank[policy_id].forward_inference({"obs": observation})[SUGGESTION].item()
            for policy_id in sorted(algo.bank.slots)
        ]
        received = list(algo.parallel_env.rewards)
        algo.stop()
        return suggestions[0] - max(suggestions[1:]), received

    learned, rewards = margin(None)
    assert learned >= 0.2
    shuffled = np.random.default_rng(seed).permutation(rewards).tolist()
    assert margin(shuffled)[0] < 0.2


class InPlace(ConnectorV2):
    """As RLlib's own connectors write: into the items."""

    def __call__(self, *, batch, **kwargs):
        self.foreach_batch_item_change_in_place(
            batch, SUGGESTION, lambda item, *ids: np.float32(0.0 if ids[1] == "worker_00" else item)
        )
        return batch


class Replaced(ConnectorV2):
    """Puts dicts in the place of columns, as RLlib's own connectors do."""

    def __call__(self, *, batch, **kwargs):
        for column in batch:
            batch[column] = {key: [item[0]] for key, item in batch[column].items()}
        for key in batch[SUGGESTION]:
            if key[1] == "worker_00":
                batch[SUGGESTION][key] = [np.float32(0.0)]
        return batch


@pytest.mark.parametrize("runner", [BippoEnvRunner, EpisodeEnvRunner])
@pytest.mark.parametrize("connector", [InPlace, Replaced])
def test_a_connector_may_write_as_rllibs_do(connector, runner):
    greedy = config(num_workers=4, rounds=100, budget=1.0).selection(sampler="greedy")
    greedy.env_runners(module_to_env_connector=lambda env, spaces: connector(), env_runner_cls=runner)
    algo = greedy.build_algo()
    for _ in range(4):
        algo.train()
        assert [a for a, act in algo.parallel_env.last_actions.items() if act] == ["worker_02"]
    algo.stop()


def test_an_earlier_state_brings_back_its_weights():
    algo = config(rounds=100).build_algo()
    for _ in range(6):
        algo.train()
    earlier, weights = copy.deepcopy(algo.get_state()), snapshot(algo)
    for _ in range(6):
        algo.train()
    assert not same(weights, snapshot(algo))
    algo.set_state(earlier)
    assert same(weights, snapshot(algo))
    algo.stop()


def test_a_policy_in_use_and_an_unknown_one_are_not_removed():
    algo = config(num_workers=3, rounds=100).build_algo()
    algo.train()
    for policy_id, message in (
        ("worker_00", "a live agent acts with policy .worker_00"),
        ("worker_9", "there is no policy 'worker_9'"),
    ):
        with pytest.raises(ValueError, match=message):
            algo.remove_module(policy_id)
    assert len(algo.bank.slots) == 3
    algo.stop()


class Pauses(MultiAgentEnv):
    """RLlib's own kind of environment: nobody acts in its second step, and it says nothing of truncation."""

    def __init__(self, context):
        super().__init__()
        self.agents = self.possible_agents = ["a", "b"]
        self.observation_spaces = dict.fromkeys(self.agents, gym.spaces.Box(-1, 1, (3,), np.float32))
        self.action_spaces = dict.fromkeys(self.agents, gym.spaces.Discrete(2))

    def reset(self, *, seed=None, options=None):
        self.time = 0
        return self._seen()

    def step(self, actions):
        self.time += 1
        observations, infos = self._seen()
        return observations, dict.fromkeys(actions, 1.0), {"__all__": self.time == 4}, {}, infos

    def _seen(self):
        present = [] if self.time == 1 else self.agents
        return (
            {a: np.zeros(3, np.float32) for a in present},
            {a: {"cost": 1.0, "budget": float(self.time > 0)} for a in present},  # nobody takes part in the first step
        )

    def get_state(self):  # of another kind than a ParallelEnv's, as in SMAC
        return np.zeros(3)


def test_a_step_without_observations_and_an_environment_that_does_not_truncate(tmp_path):
    algo = config(Pauses).build_algo()
    for _ in range(9):
        algo.train()
    assert algo.parallel_env.time == 1
    restored = Bippo.from_checkpoint(algo.save_to_path(tmp_path / "checkpoint"))
    restored.train()
    assert restored.parallel_env.time == 1  # a new episode
    algo.stop(), restored.stop()
