"""What `bippo_rllib` and `envs` must both know and may not import from each other: held equal here."""

from __future__ import annotations

import inspect
from types import SimpleNamespace

import pytest
from quick_federation import quick

from bippo_rllib import BippoConfig, BudgetSampler, Reward
from bippo_rllib.federated.flower.node_reports import CLIENT, client_of
from bippo_rllib.federated.rewards import reward_of
from bippo_rllib.selection import budget_sampler
from bippo_rllib.selection.info_ranking import InfoRanking
from envs import FederationConfig
from envs.agent_ids import agent_id, client_name, client_names
from envs.rules import budget
from envs.rules.churn import ChurnEvent

REWARD_FIELDS = ("reward", "reward_base", "reward_target")


def test_both_allow_for_the_same_rounding() -> None:
    assert budget_sampler.BUDGET_TOLERANCE == budget.BUDGET_TOLERANCE == 1e-9


def test_a_selector_has_the_reward_of_a_federation_and_its_defaults() -> None:
    assert reward_of(quick()) == Reward() == Reward(*(getattr(FederationConfig(), name) for name in REWARD_FIELDS))
    assert reward_of(quick(reward="leave_one_out", reward_base=2.0)) == Reward("leave_one_out", 2.0)
    assert [reward_of(other) for other in (None, SimpleNamespace(config={"reward": 1}), SimpleNamespace())] == [
        None
    ] * 3


@pytest.mark.parametrize("excess", [0.0, 5e-10, 9.9e-10, 1.01e-9, 2e-9])
def test_a_selection_that_the_sampler_makes_is_one_that_the_environment_takes(excess: float) -> None:
    """Three costs that make up the budget, but for an excess around the tolerance."""
    costs, limit = [1.0, 2.0, 4.0 + 7.0 * excess], 7.0
    selected = BudgetSampler("greedy", seed=0).select([0.9, 0.8, 0.7], costs, limit)
    assert (len(selected) == 3) == budget.fits(sum(costs), limit) == (excess < 1e-9)


def test_infos_hold_what_the_config_reads_by_default() -> None:
    config, env = BippoConfig(), quick(with_loss=True, cpu_freq_hz=(7e8, 1.5e9, 1.5e9, 1.5e9))
    infos = list(env.reset(seed=1)[1].values())
    assert [info[config.cost_key] for info in infos] == env.costs_j.tolist()
    assert [info[config.budget_key] for info in infos] == [env.budget_j] * 4
    assert [info[config.size_key] for info in infos] == [20] * 4
    assert [info[config.failed_key] for info in infos] == [False] * 4
    assert all(config.prior_key in info for info in infos)
    assert all(inspect.signature(InfoRanking).parameters["score_key"].default in info for info in infos)


def test_agents_of_a_federation_act_with_a_policy_for_each_client() -> None:
    """In each of its stays."""
    events = (ChurnEvent(1, 0, "leave"), ChurnEvent(2, 0, "join"), ChurnEvent(1, 3, "join"))
    policy_of = BippoConfig().policy_mapping_fn
    agents = quick(churn=events).possible_agents
    assert [policy_of(agent) for agent in agents] == [f"client_{client:03d}" for client in (0, 0, 1, 2, 3)]
    assert policy_of(agent_id("client_003", 12)) == client_name(agent_id("client_003", 12)) == "client_003"


def test_a_flower_client_has_the_policy_of_the_client_with_its_number() -> None:
    assert [client_of(99, {CLIENT: client}) for client in range(1000)] == client_names(1000)
