"""Learning while clients come and go: policies stay with their clients, restored runs go on with the same rounds."""

from __future__ import annotations

import pytest
import torch
from algorithms import config, same, snapshot

import envs
from bippo_rllib import Bippo
from bippo_rllib.runners.env_runner import BippoEnvRunner
from bippo_rllib.runners.episode_env_runner import EpisodeEnvRunner

pytestmark = pytest.mark.usefixtures("ray_session")

SIZES = {"num_clients": 8, "train_samples": 20, "test_samples": 10, "local_epochs": 1, "rounds": 60}
FEDERATION = {**SIZES, "budget_share": 0.4, "churn_leave_rate": 0.2, "churn_return_rate": 0.5}


def build(**changes) -> Bippo:
    return config(envs.parallel_env, **{**FEDERATION, **changes}).build_algo()


def test_only_participants_learn_and_a_returning_client_finds_its_policy():
    algo = build()
    counts = torch.zeros(8, dtype=torch.int64)
    for _ in range(40):
        before = snapshot(algo)
        algo.train()
        selected = list(algo.parallel_env.last_round.trained)
        counts[selected] += 1
        assert same(before, snapshot(algo), [n for n in range(8) if n not in selected])
    # One slot per client, whatever the number of its stays, and 8 Adam steps for every 2 participations.
    assert list(algo.bank.slots) == [f"client_{n:03d}" for n in range(8)]
    assert any("#" in agent for agent in algo.parallel_env.possible_agents)
    assert algo.learner.adam.all.steps.tolist() == (8 * (counts // 2)).tolist()


def test_everybody_leaves_while_somebody_joins_and_then_everybody_leaves():
    churn = [envs.ChurnEvent(3, n, "leave") for n in range(3)] + [envs.ChurnEvent(3, 3, "join")]
    churn += [envs.ChurnEvent(6, 3, "leave")]
    changes = {"num_clients": 4, "churn_leave_rate": 0.0, "churn_return_rate": 0.0, "budget_share": 0.7}
    algo = build(**changes, churn=tuple(churn))
    live = []
    for _ in range(7):
        algo.train()
        live.append(len(algo.parallel_env.agents))
    # In round 3 one client follows three, round 6 ends the episode, and the seventh train() begins another.
    assert live == [3, 3, 1, 1, 1, 0, 3]
    assert algo.parallel_env.last_round.round == 1


@pytest.mark.parametrize("runner", [BippoEnvRunner, EpisodeEnvRunner])
def test_rllibs_own_episodes_refuse_a_handover_to_newcomers_only(runner):
    # Clients 0 and 1 leave at the end of round 3, in which client 2 joins.
    churn = (*(envs.ChurnEvent(3, n, "leave") for n in range(2)), envs.ChurnEvent(3, 2, "join"))
    algo = config(envs.parallel_env, **{**SIZES, "num_clients": 3, "budget_share": 0.9, "churn": churn})
    algo = algo.env_runners(env_runner_cls=runner).build_algo()
    algo.train(), algo.train()
    if runner is BippoEnvRunner:
        algo.train(), algo.train()
        assert algo.parallel_env.last_round.clients == (2,)
    else:
        with pytest.raises(ValueError, match=r"all 2 agents left in the step in which 'client_002' joined.*BippoEnv"):
            algo.train()
        assert algo.parallel_env.last_round.round == 3
