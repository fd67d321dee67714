"""What RLlib's and Tune's pages do with a configuration, an algorithm and its callbacks, done with ours."""

from __future__ import annotations

import pickle
import random
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import toy_envs
from algorithms import config as toy_config
from algorithms import steps
from ray import cloudpickle, tune
from ray.rllib.callbacks.callbacks import RLlibCallback
from ray.rllib.env.wrappers.pettingzoo_env import ParallelPettingZooEnv
from ray.tune.search.variant_generator import generate_variants
from toy_envs import Workers

from bippo_rllib import Bippo, BippoConfig
from bippo_rllib.baselines.central.config import CentralPPOConfig
from bippo_rllib.baselines.central.env_runner import CentralEnvRunner
from bippo_rllib.baselines.central.learner import CentralLearner
from bippo_rllib.baselines.rule_connector import RuleConnector
from bippo_rllib.runners.env_runner import BippoEnvRunner
from bippo_rllib.runners.episode_env_runner import EpisodeEnvRunner
from bippo_rllib.runners.parallel_env import ParallelEnvAdapter
from experiments.connector_methods import NormFilterConfig

pytestmark = pytest.mark.usefixtures("ray_session")

CONFIGS = [BippoConfig, CentralPPOConfig]
RUNNERS = [BippoEnvRunner, EpisodeEnvRunner]


def make_workers(**keywords: Any) -> Workers:
    return Workers(**keywords)


def config(config_class: type[BippoConfig] = BippoConfig, env: Any = Workers, **keywords: Any) -> BippoConfig:
    return toy_config(env, base=config_class, **{"num_workers": 3, "rounds": 5, **keywords})


@pytest.mark.parametrize("config_class", CONFIGS)
@pytest.mark.parametrize("env", [Workers, make_workers], ids=["class", "factory"])
def test_a_configuration_survives_rllibs_dicts_and_copies(config_class, env):
    ours = config(config_class, env)
    expected = steps(ours.build_algo())
    twice = config_class.from_dict(config_class.from_dict(ours.to_dict()).to_dict())
    pickled = pickle.loads(pickle.dumps(ours))  # as multiprocessing and ProcessPoolExecutor do
    assert pickled.env is ours.env
    for again in (twice, ours.copy(copy_frozen=False), config_class.from_state(ours.get_state()), pickled):
        assert steps(again.build_algo()) == expected
    assert steps(ours.copy(copy_frozen=False).debugging(seed=8).build_algo()) != expected
    # An algorithm from a dict has the dict's class, not its own default.
    algo = Bippo(config=ours.to_dict())
    assert type(algo.config) is config_class
    assert steps(algo) == expected


def test_keywords_and_settings_may_be_searched():
    space = config(num_workers=tune.grid_search([2, 3])).training(lr=tune.grid_search([0.1, 0.2])).to_dict()
    found = []
    for _, point in generate_variants(space):
        Bippo.default_resource_request(point)
        algo = Bippo(config=point)
        found.append((len(algo.parallel_env.possible_agents), algo.config.lr))
    assert sorted(found) == [(2, 0.1), (2, 0.2), (3, 0.1), (3, 0.2)]


def test_a_dict_keeps_the_class_of_a_custom_configuration():
    algo = Bippo(config=config(NormFilterConfig).to_dict())
    assert any(isinstance(connector, RuleConnector) for connector in algo.env_runner.module_to_env.connectors)


@pytest.mark.parametrize(
    "creator",
    [
        lambda context: Workers(**context),
        lambda context: ParallelEnvAdapter(Workers(**context)),
        lambda context: ParallelPettingZooEnv(Workers(**context)),
    ],
    ids=["ParallelEnv", "ours", "RLlib's"],
)
@pytest.mark.parametrize("runner", RUNNERS)
def test_registered_names_and_other_adapters_work(creator, runner):
    tune.register_env("workers", creator)
    algo = config(env="workers").env_runners(env_runner_cls=runner).build_algo()
    results = [algo.train() for _ in range(7)]
    assert results[-1]["env_runners"]["num_episodes_lifetime"] == 1


class FailsOnce(Workers):
    """The first environment that is made fails in its third step."""

    def __init__(self, marker: str, **keywords: Any) -> None:
        super().__init__(**keywords)
        self._marker = Path(marker)

    def step(self, actions):
        if self.time == 2 and not self._marker.exists():
            self._marker.touch()
            raise RuntimeError("power cut")
        return super().step(actions)


@pytest.fixture
def trials_know_the_toys():
    """Processes of trials cannot import what lies beside the tests."""
    modules = toy_envs, sys.modules[__name__]
    for module in modules:
        cloudpickle.register_pickle_by_value(module)
    yield
    for module in modules:
        cloudpickle.unregister_pickle_by_value(module)


@pytest.mark.slow
@pytest.mark.usefixtures("trials_know_the_toys")
def test_tune_runs_a_grid_and_restores_it_after_an_error(tmp_path):
    ours = config(CentralPPOConfig, FailsOnce, marker=str(tmp_path / "failed"))
    run_config = tune.RunConfig(
        storage_path=str(tmp_path),
        name="grid",
        verbose=0,
        stop={"training_iteration": 4},
        checkpoint_config=tune.CheckpointConfig(checkpoint_frequency=1),
    )
    space = ours.training(lr=tune.grid_search([0.1, 0.2]))
    results = tune.Tuner(Bippo, param_space=space, run_config=run_config).fit()
    assert len(results.errors) == 1 and all("Bippo_FailsOnce" in result.path for result in results)
    restored = tune.Tuner.restore(str(tmp_path / "grid"), Bippo, param_space=space, resume_errored=True).fit()
    assert not restored.errors
    assert sorted((r.config["lr"], r.metrics["training_iteration"]) for r in restored) == [(0.1, 4), (0.2, 4)]
    assert sorted(r.metrics["iterations_since_restore"] for r in restored) == [2, 4]  # one went on where it failed
    algo = Bippo.from_checkpoint(restored[0].checkpoint)
    assert isinstance(algo.learner, CentralLearner)
    assert algo.parallel_env.time == 4


def test_paths_may_be_relative(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    algo = config().build_algo()
    algo.train()
    assert algo.save_to_path("as/text") == str(tmp_path / "as/text")
    assert algo.save_to_path(Path("as_path")) == str(tmp_path / "as_path")
    expected = steps(algo)
    for path in ("as/text", Path("as_path"), f"file://{tmp_path}/as/text"):
        assert steps(Bippo.from_checkpoint(path)) == expected
    other = config().build_algo()
    other.restore_from_path("as/text")
    assert steps(other) == expected


class Dice(Workers):
    """Draws from the global generators as well."""

    def _observations(self):
        dice = random.random() + np.random.random() + torch.rand(1).item()
        return {agent: observation + dice for agent, observation in super()._observations().items()}


@pytest.mark.parametrize("runner", [*RUNNERS, CentralEnvRunner])
def test_evaluations_change_nothing_in_the_training_run(runner):
    config_class = CentralPPOConfig if runner is CentralEnvRunner else BippoConfig
    ours = config(config_class, Dice, leaves_at=3).env_runners(env_runner_cls=runner)
    expected = steps(ours.build_algo(), 9)
    algo, seen = ours.build_algo(), []
    for number in (3, 1, 5):  # after the fourth step one has left; the evaluation begins with all
        seen += steps(algo, number)
        before = algo.sampler.get_state()
        result = algo.evaluate()["env_runners"]
        assert result["num_episodes"] == 1 and result["episode_len_mean"] == 5
        assert algo.sampler.get_state() == before
    assert seen == expected
    every_second = ours.copy(copy_frozen=False).evaluation(evaluation_interval=2).build_algo()
    assert steps(every_second, 9) == expected


@pytest.mark.parametrize("runner", RUNNERS)
def test_a_checkpoint_is_the_same_with_and_without_an_evaluation(runner, tmp_path):
    algo = config().env_runners(env_runner_cls=runner).build_algo()
    algo.evaluate(), algo.train(), algo.evaluate()
    path = algo.save_to_path(tmp_path / "checkpoint")
    expected = steps(algo, 4)
    fresh = Bippo.from_checkpoint(path)
    assert steps(fresh, 4) == expected
    used = config().env_runners(env_runner_cls=runner).build_algo()
    steps(used, 2), used.evaluate()
    used.restore_from_path(path)
    assert used.evaluate() and steps(used, 4) == expected


def test_an_evaluation_is_greedy_repeatable_and_of_the_latest_weights():
    algo = config(num_workers=6, budget=1.0).evaluation(evaluation_config={"env_config": {"rounds": 3}}).build_algo()

    def picks() -> list[Any]:
        assert algo.evaluate()["env_runners"]["episode_len_mean"] == 3
        env = algo.eval_env_runner.env.envs[0].unwrapped.parallel_env
        return [env.last_actions, env._rng.bit_generator.state["state"]]

    steps(algo, 8)  # some policies have been updated
    assert picks() == picks()
    assert not algo.eval_env_runner.config.explore
    preferred = "worker_04"
    with torch.no_grad():
        for policy in list(algo.bank.keys()):
            algo.get_module(policy).actor[-1].bias[:] = torch.tensor([0.0, 9.0 if policy == preferred else -9.0])
    assert [agent for agent, act in picks()[0].items() if act] == [preferred]


@pytest.mark.parametrize(("own", "epsilon"), [({}, 0.9**4), ({"epsilon": 0.5}, 0.5)])
def test_an_evaluation_may_explore_at_a_rate_of_its_own(own, epsilon):
    settings = config().selection(epsilon=1.0, epsilon_decay=0.9, epsilon_min=0.0)
    settings.evaluation(evaluation_config={"explore": True, "env_config": {"rounds": 3}, **own})
    algo = settings.build_algo()
    steps(algo, 4)
    for _ in range(2):
        algo.evaluate()
        assert algo.eval_env_runner.sampler_connector().sampler.epsilon == pytest.approx(epsilon * 0.9**3)
    assert algo.sampler.epsilon == pytest.approx(0.9**4)


def test_an_environment_that_is_evaluated_in_a_trial_has_room():
    request = Bippo.default_resource_request(
        config().env_resources(bundles=[{"CPU": 2}]).evaluation(evaluation_interval=5)
    )
    assert request.bundles == [{"CPU": 1.0}, {"CPU": 2.0}, {"CPU": 2.0}]


class Notes(RLlibCallback):
    """What callbacks on RLlib's pages do."""

    heard: list[Any] = []  # noqa: RUF012

    def on_episode_created(self, *, episode, **kwargs):
        self.heard.append("created")

    def on_episode_start(self, *, episode, **kwargs):
        episode.custom_data["first"] = episode.get_infos(-1, agent_ids=["worker_01"])["worker_01"]["cost"]
        self.heard.append("start")

    def on_episode_step(self, *, episode, **kwargs):
        if (
            episode.env_t == 3
        ):  # RLlib 2.60 has no actions and rewards in the third step of an episode cut at every step
            return
        actions, rewards = episode.get_actions(-1), episode.get_rewards(-1)
        everything = episode.get_rewards(), episode.get_actions()
        modules = [episode.module_for(agent) for agent in sorted(episode.agent_ids)]
        observations = sorted(episode.get_observations(-1))
        self.heard.append((sorted(actions.items()), rewards, everything, modules, observations, episode.env_t))

    def on_episode_end(self, *, episode, prev_episode_chunks, metrics_logger, **kwargs):
        chunks = [episode, *prev_episode_chunks]
        whole = sum(chunk.get_return() for chunk in chunks), sum(len(chunk) for chunk in chunks)
        self.heard.append((*whole, episode.env_t, episode.is_done, episode.custom_data["first"]))
        metrics_logger.log_value("mine", whole[0])

    def on_sample_end(self, *, samples, **kwargs):
        self.heard.append(sum(sample.env_steps() for sample in samples))


def test_callbacks_of_rllibs_pages_hear_the_same_from_both_runners(monkeypatch):
    heard = {}
    for runner in RUNNERS:
        monkeypatch.setattr(Notes, "heard", [])
        algo = config().callbacks(Notes).env_runners(env_runner_cls=runner).build_algo()
        results = [algo.train() for _ in range(6)]
        returned = results[4]["env_runners"]
        assert returned["mine"] == returned["episode_return_mean"]
        heard[runner] = [note for note in Notes.heard if note != "created"]
        assert "created" in Notes.heard
    assert heard[BippoEnvRunner] == heard[EpisodeEnvRunner]


def test_what_the_default_runners_episode_lacks_names_the_way_out():
    algo = config().build_algo()
    algo.train()
    episode = algo.env_runner._episode
    assert (len(episode), episode.env_steps()) == (1, 1)
    with pytest.raises(AttributeError, match=r"has no 'agent_episodes', .*EpisodeEnvRunner"):
        _ = episode.agent_episodes
    with pytest.raises(ValueError, match=r"infos are \[-2\], .*EpisodeEnvRunner"):
        episode.get_infos([-2])


def test_length_and_return_of_an_episode_go_on_after_a_restart(tmp_path):
    algo = config(env=None).build_algo(env=Workers)  # which may be named when building, too
    steps(algo, 3)
    restored = Bippo.from_checkpoint(algo.save_to_path(tmp_path))
    episode, again = algo.env_runner._episode, restored.env_runner._episode
    assert (len(again), again.get_return()) == (len(episode), episode.get_return()) == (3, episode.get_return())
