"""The PettingZoo adapter: reset when asked, agents in the environment's order, one common end."""

from __future__ import annotations

import pytest
from algorithms import config
from toy_envs import Workers

from bippo_rllib.policies.agents import policy_of, policy_spaces
from bippo_rllib.runners.parallel_env import ParallelEnvAdapter


def adapter(**keywords) -> ParallelEnvAdapter:
    return ParallelEnvAdapter(Workers(**keywords))


def test_constructing_does_not_reset():
    env = adapter(num_workers=3)
    assert env.parallel_env.resets == 0
    assert env.possible_agents == ["worker_00", "worker_01", "worker_02"]
    assert env.agents == []


def test_the_round_limit_is_a_truncation_of_all():
    env = adapter(num_workers=2, rounds=2)
    env.reset(seed=0)
    _, _, terminateds, truncateds, _ = env.step({"worker_00": 1, "worker_01": 0})
    assert (terminateds["__all__"], truncateds["__all__"]) == (False, False)
    observations, rewards, terminateds, truncateds, infos = env.step({"worker_00": 1, "worker_01": 0})
    # Per-agent flags would make RLlib turn the common truncation into a termination.
    assert (terminateds, truncateds) == ({"__all__": False}, {"__all__": True})
    assert list(observations) == list(rewards) == list(infos) == ["worker_00", "worker_01"]


def test_one_agent_leaves_while_the_others_stay():
    env = adapter(num_workers=3, leaves_at=1)
    env.reset(seed=0)
    observations, _, _, truncateds, _ = env.step(dict.fromkeys(env.agents, 0))
    assert truncateds == {"worker_00": True, "worker_01": False, "worker_02": False, "__all__": False}
    assert "worker_00" in observations  # its last observation
    assert env.agents == ["worker_01", "worker_02"]


def test_time_in_the_environment_is_counted():
    env = adapter()
    env.reset(seed=0)
    first = env.seconds
    env.step(dict.fromkeys(env.agents, 0))
    assert env.seconds > first > 0.0


def test_state_round_trip_in_mid_episode():
    env, other = adapter(rounds=9), adapter(rounds=9)
    env.reset(seed=3)
    env.step(dict.fromkeys(env.agents, 1))
    observations, infos = other.set_state(env.get_state())
    assert list(observations) == list(infos) == env.agents
    act = dict.fromkeys(env.agents, 0)
    ours, theirs = env.step(act), other.step(act)
    assert all((ours[0][a] == theirs[0][a]).all() for a in env.agents)
    assert ours[1:] == theirs[1:]


class Growing(Workers):
    """Counts how often it is asked for a space, and lists a worker that joins among the possible agents."""

    def __init__(self, num_workers: int) -> None:
        super().__init__(num_workers)
        self.asked = 0

    def join(self, agent: str) -> None:
        self.possible_agents.append(agent)
        self.agents.append(agent)

    def observation_space(self, agent):
        self.asked += 1
        return super().observation_space(agent)


def test_agents_and_spaces_follow_an_environment_that_grows():
    env = ParallelEnvAdapter(Growing(num_workers=2))
    env.reset(seed=0)
    before = env.possible_agents
    env.parallel_env.join("worker_77")
    assert before == ["worker_00", "worker_01"]  # a list that was returned does not change
    assert env.possible_agents == env.agents == ["worker_00", "worker_01", "worker_77"]
    assert (env.num_agents, env.max_num_agents) == (3, 3)
    assert env.get_observation_space("worker_77") == env.observation_spaces["worker_77"]
    assert env.get_action_space("worker_77") == env.action_spaces["worker_77"]
    env.possible_agents = []  # as RLlib's base class may
    assert len(env.possible_agents) == 3


def test_spaces_of_all_policies_cost_one_question_each():
    env = ParallelEnvAdapter(Growing(num_workers=50))
    assert len(policy_spaces(env, policy_of)) == env.parallel_env.asked == 50


def test_an_environment_without_state_says_so():
    class Stateless(Workers):
        get_state = property()  # hides the method: hasattr is False

    env = ParallelEnvAdapter(Stateless())
    env.reset(seed=0)
    assert env.get_state() is None
    with pytest.raises(AttributeError):
        _ = env.parallel_env.get_state


class AgentsFromReset(Workers):
    """Has no ``agents`` before its first reset, as PettingZoo allows and its tutorial does."""

    def __init__(self) -> None:
        super().__init__(num_workers=2)
        del self.agents


def test_an_environment_may_have_no_agents_before_its_first_reset():
    env = ParallelEnvAdapter(AgentsFromReset())
    assert env.agents == []
    env.reset(seed=0)
    assert env.agents == ["worker_00", "worker_01"]
    algo = config(AgentsFromReset).build_algo()
    assert algo.train()["env_runners"]["num_env_steps_sampled"] == 1
    algo.stop()
