"""BippoConfig and Bippo under RLlib: selections, updates, checkpoints, connectors, refused settings."""

from __future__ import annotations

import math

import gymnasium as gym
import numpy as np
import pytest
import torch
from algorithms import config, same, snapshot
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


def on_both_runners(built, steps):
    """Trains on arrays and on RLlib's episodes, which must select and learn the same; returns both algorithms."""
    arrays = built.build_algo()
    episodes = built.copy(copy_frozen=False).env_runners(env_runner_cls=EpisodeEnvRunner).build_algo()
    for _ in range(steps):
        arrays.train(), episodes.train()
        assert arrays.parallel_env.last_actions == episodes.parallel_env.last_actions
    assert same(snapshot(arrays), snapshot(episodes))
    return arrays, episodes


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


def test_episodes_follow_each_other_and_batches_wait_across_them():
    algo = config(num_workers=3, rounds=3).build_algo()
    results = [algo.train() for _ in range(7)]
    assert algo.parallel_env.resets == 3
    assert algo.parallel_env.time == 1
    assert results[2]["env_runners"]["episode_len_mean"] == 3
    assert results[6]["learners"]["__all_modules__"]["num_env_steps_trained_lifetime"] == 7


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


class Unlucky(Workers):
    """Flags each step of worker_01."""

    def __init__(self, flag: str, **keywords):
        super().__init__(**keywords)
        self._flag = flag

    def _infos(self):
        return {agent: {**info, self._flag: agent == "worker_01"} for agent, info in super()._infos().items()}


@pytest.mark.parametrize(
    ("flag", "named"),
    [
        *(("failed", {}), ("dropped", {}), ("lost", {})),
        *(("lost", {"failed": "lost"}), ("lost", {"dropped": "lost"}), ("failed", {"failed": "lost"})),
    ],
)
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


def each_key(batch, agent):
    for key in batch[SUGGESTION]:
        if key[1] == agent:
            batch[SUGGESTION][key] = [np.float32(0.0)]


def in_place(batch, agent):
    """As RLlib's connectors write: into the items."""
    ConnectorV2.foreach_batch_item_change_in_place(
        batch, SUGGESTION, lambda item, *ids: np.float32(0.0 if ids[1] == agent else item)
    )


def replaced(batch, agent):
    """Replaces columns by dicts, as some of RLlib's connectors do."""
    for column in batch:
        batch[column] = {key: [item[0]] for key, item in batch[column].items()}
    each_key(batch, agent)


class ZeroSuggestion(ConnectorV2):
    """A custom connector that keeps one agent from being suggested."""

    def __init__(self, write, agent):
        super().__init__()
        self._write, self._agent = write, agent

    def __call__(self, *, batch, **kwargs):
        self._write(batch, self._agent)
        return batch


@pytest.mark.parametrize("runner", [BippoEnvRunner, EpisodeEnvRunner])
@pytest.mark.parametrize("write", [each_key, in_place, replaced])
@pytest.mark.parametrize(("zeroed", "picked"), [("worker_00", "worker_02"), ("worker_02", "worker_00")])
def test_a_custom_connector_before_the_sampler_counts(zeroed, picked, write, runner):
    # Two workers cost 1 and two cost 2; with a budget of 1 it is one or the other of the cheap ones.
    greedy = config(num_workers=4, rounds=100, budget=1.0).selection(sampler="greedy")
    connector = ZeroSuggestion(write, zeroed)
    greedy.env_runners(module_to_env_connector=lambda env, spaces: connector, env_runner_cls=runner)
    algo = greedy.build_algo()
    names = [type(each).__name__ for each in algo.env_runner.module_to_env.connectors]
    assert names.index("ZeroSuggestion") == names.index("BudgetSamplerConnector") - 1
    for _ in range(2):
        algo.train()
        assert [a for a, act in algo.parallel_env.last_actions.items() if act] == [picked]


def test_a_sample_has_the_requested_number_of_steps():
    runner = config(num_workers=2, rounds=3).build_algo().env_runner
    assert [len(runner.sample(num_timesteps=n)) for n in (0, 1, 2)] + [len(runner.sample())] == [0, 1, 2, 1]
    assert [len(runner.sample(num_episodes=n)) for n in (0, 1, 2)] == [0, 3, 6]
    for wrong in ({"num_timesteps": -1}, {"num_episodes": -1}, {"num_timesteps": 1, "num_episodes": 1}):
        with pytest.raises(ValueError, match="num_timesteps or num_episodes"):
            runner.sample(**wrong)


def test_without_the_sampler_the_run_is_refused():
    algo = config().build_algo()
    algo.env_runner.module_to_env.remove("BudgetSamplerConnector")
    with pytest.raises(ValueError, match="no BudgetSamplerConnector in the module-to-env pipeline"):
        algo.train()


def test_a_custom_sampler_connector_is_not_doubled():
    own = BudgetSamplerConnector(BudgetSampler("greedy"))
    algo = config().env_runners(module_to_env_connector=lambda env, spaces: [own]).build_algo()
    assert sum(isinstance(p, BudgetSamplerConnector) for p in algo.env_runner.module_to_env.connectors) == 1
    assert algo.sampler.strategy == "greedy"


def test_nothing_is_learned_where_no_policy_is_to_be_trained():
    keywords_set_later = config(num_workers=3).environment(env_config={"num_workers": 4})
    algo = keywords_set_later.selection(sampler="random").multi_agent(policies_to_train=[]).build_algo()
    before = snapshot(algo)
    for _ in range(6):
        algo.train()
    assert len(algo.bank) == 4 and same(before, snapshot(algo))


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


class Newcomer(Workers):
    """In its third step a worker appears that nobody announced."""

    def step(self, actions):
        outcome = super().step(actions)
        if self.time == 3:
            self.agents.append("worker_77")
            outcome[0]["worker_77"], outcome[4]["worker_77"] = np.ones(3, np.float32), {"cost": 1.0, "budget": 3.0}
        return outcome


class Unlisted(Workers):
    """Its last worker is there from the start, and not among the possible agents."""

    def __init__(self, **keywords):
        super().__init__(**keywords)
        self._unlisted = self.possible_agents.pop()

    def reset(self, seed=None, options=None):
        self.possible_agents.append(self._unlisted)
        seen = super().reset(seed, options)
        self.possible_agents.pop()
        return seen


@pytest.mark.parametrize(("env", "num"), [(Newcomer, 3), (Unlisted, 4)])
def test_agents_nobody_announced_act_alike_on_arrays_and_episodes(env, num):
    """In several episodes, in which they are there at the start and join later."""
    built = config(env, num_workers=num, rounds=5)
    arrays, episodes = on_both_runners(built, steps=17)
    assert list(arrays.bank.slots) == list(episodes.bank.slots) and len(arrays.bank.slots) == 4
    assert not math.isnan(episodes.evaluate()["env_runners"]["episode_return_mean"])


@pytest.mark.parametrize("runner", [BippoEnvRunner, EpisodeEnvRunner])
def test_an_agent_nobody_announced_gets_a_policy_of_its_own(runner):
    algo = config(Newcomer, num_workers=3, rounds=100).env_runners(env_runner_cls=runner).build_algo()
    for _ in range(4):
        algo.train()
    assert list(algo.bank.slots) == ["worker_00", "worker_01", "worker_02", "worker_77"]
    for _ in range(20):
        before = snapshot(algo)
        algo.train()
        acted = [algo.parallel_env.last_actions[a] for a in algo.bank.slots]
        assert same(before, snapshot(algo), [n for n in range(4) if not acted[n]])
    assert algo.learner.adam.all.steps[3] > 0


def test_metrics_are_aggregates_and_per_policy_on_request():
    names = {}
    for per_policy in (False, True):
        algo = config(num_workers=6, rounds=100).training(per_policy_metrics=per_policy).build_algo()
        results = [algo.train()["learners"] for _ in range(8)]
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


class Odd(Workers):
    """Returns what ``change`` makes of one part: infos, observations, rewards or a space."""

    def __init__(self, part: str, change, **keywords):
        self._part, self._change = part, change
        super().__init__(**keywords)

    def _as_changed(self, part, value, *about):
        return self._change(value, *about) if part == self._part else value

    def observation_space(self, agent):
        return self._as_changed("observation_space", super().observation_space(agent), agent)

    def action_space(self, agent):
        return self._as_changed("action_space", super().action_space(agent), agent)

    def _infos(self):
        return {agent: self._as_changed("infos", info, agent) for agent, info in super()._infos().items()}

    def step(self, actions):
        observations, rewards, *rest = super().step(actions)
        observations = self._as_changed("observations", observations, actions)
        return observations, self._as_changed("rewards", rewards, actions), *rest


def of_idle(entries, actions):
    return {agent: entry for agent, entry in entries.items() if not actions[agent]}


def of_acting(entries, actions):
    return {agent: entry for agent, entry in entries.items() if actions[agent]}


NO_COST = {"part": "infos", "change": lambda info, agent: {"price": 1.0, "budget": 3.0}}


class Leaves(Workers):
    """worker_00 leaves after two steps, without a last observation."""

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
    on_both_runners(built, steps=10)


class EndsApart(Workers):
    """In its last step the first ``terminated`` workers are terminated without observation, the others truncated."""

    def __init__(self, terminated, **keywords):
        super().__init__(**keywords)
        self._terminated = self.possible_agents[:terminated]

    def step(self, actions):
        observations, rewards, terminated, truncated, infos = super().step(actions)
        if not self.agents:
            for agent in self._terminated:
                truncated[agent], terminated[agent] = False, True
            observations = {a: np.ones(3, np.float32) for a in actions if a not in self._terminated}
        return observations, rewards, terminated, truncated, infos


@pytest.mark.parametrize("terminated", range(5))
@pytest.mark.parametrize("budget", [1.0, 100.0])
def test_a_last_step_may_terminate_some_and_truncate_others(terminated, budget):
    built = config(EndsApart, terminated=terminated, rounds=4, budget=budget)
    on_both_runners(built, steps=10)


@pytest.mark.parametrize("runner", [BippoEnvRunner, EpisodeEnvRunner])
@pytest.mark.parametrize(
    ("env", "keywords", "message"),
    [
        (Leaves, {"terminated": False, "budget": 100.0}, "^'worker_00' was truncated without a last observation"),
        (Leaves, {"terminated": False, "budget": 0.0}, "^'worker_00' was truncated without a last observation"),
        (Odd, {"part": "rewards", "change": of_acting, "budget": 0.0}, "^the reward of 'worker_0.' is missing"),
    ],
)
def test_both_runners_name_what_is_missing_of_an_agent_that_acted_or_did_not(env, keywords, message, runner):
    algo = config(env, **keywords).env_runners(env_runner_cls=runner).build_algo()
    with pytest.raises(ValueError, match=message):
        for _ in range(3):
            algo.train()


@pytest.mark.parametrize("config_class", [BippoConfig, CentralPPOConfig])
@pytest.mark.parametrize("prior", [{}, {"prior_key": "budget", "prior_weight": 2.0}])
def test_a_policy_that_has_diverged_is_named(config_class, prior):
    diverging = config_class().environment(Workers, env_config={"rounds": 50}).debugging(seed=7, log_level="ERROR")
    algo = diverging.training(lr=1e20).selection(sampler="greedy", **prior).build_algo()
    who = "the policy of 'worker_0.'" if config_class is BippoConfig else "the central network"
    with pytest.raises(ValueError, match=f"^{who} has diverged.*lr"):
        for _ in range(20):
            algo.train()


@pytest.mark.parametrize(
    ("part", "change", "message"),
    [
        ("infos", NO_COST["change"], r"'worker_00' has no 'cost' .*price.*info_keys"),
        ("infos", lambda info, agent: {**info, "cost": -1.0}, "worker_00 has cost -1.0"),
        ("infos", lambda info, agent: {**info, "budget": float(agent[-1]) + 1}, r"different budgets \(1.0 and 4.0"),
        ("infos", lambda info, agent: {**info, "budget": math.nan}, "^the budget is nan; it must be at least 0"),
        ("infos", lambda info, agent: {**info, "budget": (1.0, math.nan)[int(agent[-1]) % 2]}, "^the budget is nan; "),
        ("action_space", lambda space, agent: gym.spaces.Discrete(3), r"Discrete\(2\)"),
        ("rewards", lambda rewards, actions: dict.fromkeys(rewards, math.nan), "the reward of 'worker_0.' is nan"),
        ("observations", of_idle, "the observation of 'worker_0.' is missing"),
        ("observations", lambda obs, actions: dict.fromkeys(obs, np.zeros(2)), r"observation of 'worker_0.'.*\(3,\)"),
        (
            "observation_space",
            lambda space, agent: gym.spaces.Box(-10, 10, (3 + int(agent[-1]),), np.float32),
            "observations of one shape",
        ),
    ],
)
def test_environments_that_do_not_fit_are_refused(part, change, message):
    with pytest.raises(ValueError, match=message):
        config(Odd, part=part, change=change).build_algo().train()


def test_other_info_keys_and_units_work():
    algo = config(Odd, **NO_COST).info_keys(cost="price").build_algo()
    algo.train()
    assert sum(algo.parallel_env.last_actions.values()) == 3


def test_two_live_agents_on_one_policy_are_refused():
    shared = config().multi_agent(policies={"shared"}, policy_mapping_fn=lambda agent_id, *args, **kwargs: "shared")
    algo = shared.build_algo()
    with pytest.raises(ValueError, match="4 agents act with policy 'shared'"):
        algo.train()


@pytest.mark.parametrize("seed", [7, 28, 42])
def test_bippo_finds_the_good_client_and_only_because_of_the_rewards(seed):
    def margin(rewards: list[float] | None) -> tuple[float, list[float]]:
        algo = config(Bandit, seed=seed, rewards=rewards).build_algo()
        for _ in range(60):
            algo.train()
        seen = {"obs": torch.tensor([[0.5, 1.0, 0.5, 0.5, 1.0]])}
        policies = [algo.bank[policy_id] for policy_id in sorted(algo.bank.slots)]
        suggestions = [policy.forward_inference(seen)[SUGGESTION].item() for policy in policies]
        received = list(algo.parallel_env.rewards)
        return suggestions[0] - max(suggestions[1:]), received

    learned, rewards = margin(None)
    assert learned >= 0.2
    shuffled = np.random.default_rng(seed).permutation(rewards).tolist()
    assert margin(shuffled)[0] < 0.2


@pytest.mark.parametrize("runner", [BippoEnvRunner, EpisodeEnvRunner])
def test_a_policy_in_use_and_an_unknown_one_are_not_removed(runner):
    algo = config(num_workers=3, rounds=4, leaves_at=2).env_runners(env_runner_cls=runner).build_algo()
    algo.add_module("worker_97"), algo.remove_module("worker_97")  # before the first episode nobody is there
    for step, live in enumerate(([0, 1, 2], [1, 2], [1, 2], [], [0, 1, 2])):  # one leaves, all leave, all are back
        algo.train()
        assert sorted(algo.env_runner.live_policies) == [f"worker_{n:02d}" for n in live], step
        for policy_id, why in [
            *((f"worker_{n:02d}", "a live agent") for n in live),
            ("worker_9", "there is no policy"),
        ]:
            with pytest.raises(ValueError, match=f"{why}.*{policy_id}"):
                algo.remove_module(policy_id)
    assert len(algo.bank.slots) == 3


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
