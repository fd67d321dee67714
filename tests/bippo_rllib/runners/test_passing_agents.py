"""Agents that come and go by the thousand, and a budget that is another one in every step."""

from __future__ import annotations

import gc

import pytest
from toy_envs import Passing

from bippo_rllib import BippoConfig
from bippo_rllib.runners.env_runner import BippoEnvRunner
from bippo_rllib.runners.episode_env_runner import EpisodeEnvRunner

pytestmark = pytest.mark.usefixtures("ray_session")


@pytest.mark.parametrize("runner", [BippoEnvRunner, EpisodeEnvRunner])
def test_agents_that_left_are_not_remembered_and_each_step_has_its_own_budget(runner):
    config = BippoConfig().environment(Passing).selection(sampler="odds", prior_key="cost", prior_weight=1.0)
    algo = config.env_runners(env_runner_cls=runner).debugging(seed=1, log_level="ERROR").build_algo()
    env = algo.parallel_env
    for _ in range(60):  # 124 agents
        algo.train()
        assert env.num_acted == env.budget_spent_from
    gc.collect()
    assert env.time == 60
    assert 4 <= len(env.ids) <= 12  # those of the last step or two
    assert list(algo.bank.keys()) == list(Passing.possible_agents)
