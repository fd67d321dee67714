"""Clients that come and go: who is live when, what the step tells them, and that nothing is lost on the way."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from quick_federation import EVENTS, TINY, quick
from rollouts import plain

import envs
from envs.rng import RoundKey
from envs.rules.budget import BUDGET_TOLERANCE
from envs.rules.churn import ChurnEvent, MarkovChurn
from envs.rules.reward import accuracy_reward
from envs.training import aggregation


def all_of(env):
    return dict.fromkeys(env.agents, 1)


def test_a_join_and_a_leave_by_the_books():
    env = envs.parallel_env(**TINY, churn=EVENTS, with_loss=True)
    observations, _ = env.reset(seed=7)
    assert env.agents == list(observations) == ["client_000", "client_001", "client_002"]
    assert env.possible_agents == ["client_000", "client_000#1", "client_001", "client_002", "client_003"]
    before = env.get_state()
    observations, rewards, terminations, truncations, infos = env.step({"client_000": 1})
    agents = ["client_000", "client_001", "client_002", "client_003"]
    for part in (observations, rewards, terminations, truncations, infos):
        assert list(part) == agents
    assert env.agents == agents[1:]
    assert list(truncations.values()) == [True, False, False, False] and not any(terminations.values())

    # The client that leaves trained: its update is the model, its joules are spent, it gets reward and observation.
    result, after = env.last_round, env.get_state()
    executor = env._federation._get_executor(7)
    alone = aggregation.mean(executor.train(before["weights"], [0], RoundKey(7, 0, 1), epochs=1))
    assert torch.equal(after["weights"], alone)
    assert result.trained == (0,) and result.energy_j == infos["client_000"]["granted_j"] == before["costs_j"][0]
    assert (result.clients, result.joined, result.departed) == ((0, 1, 2), (3,), (0,))

    # Reward over the two that stay, 0 for the one that joins.
    accuracies = executor.accuracies(after["weights"], range(4))
    reward = accuracy_reward(float(np.mean(before["accuracies"][1:3])), float(np.mean(accuracies[1:3])))
    assert rewards == {"client_000": reward, "client_001": reward, "client_002": reward, "client_003": 0.0}
    assert result.reward == reward and result.mean_accuracy == np.mean(accuracies[:3])

    # The one that joins was evaluated on the new model; the mean agents observe is that of clients 1, 2 and 3.
    assert [infos[agent]["accuracy"] for agent in agents] == accuracies.tolist()
    assert infos["client_003"]["loss"] == pytest.approx(executor.losses(after["weights"], [3])[0])
    assert {float(row[0]) for row in observations.values()} == {float(np.float32(np.mean(accuracies[1:])))}
    assert [row[4] for row in observations.values()] == [1.0, 0.0, 0.0, 0.0]


def test_live_agents_of_each_round():
    env = quick(churn=EVENTS)
    env.reset(seed=7)
    live = []
    while env.agents:
        live.append([agent.removeprefix("client_") for agent in env.agents])
        *_, truncations, _ = env.step({})
    early = [["000", "001", "002"], *[["001", "002", "003"]] * 2]
    assert live == [*early, *[["000#1", "001", "003"]] * 2]
    assert truncations == {"client_000#1": True, "client_001": True, "client_003": True}


@pytest.mark.usefixtures("any_executor")
def test_budget_and_round_zero_are_of_the_clients_live_at_the_start():
    env, everybody = envs.parallel_env(**TINY, churn=EVENTS), quick()
    assert env.budget_j == pytest.approx(0.6 * everybody.costs_j[:3].sum(), rel=1e-12)
    # One local epoch, as round 0 has: client 3 would have cost in it what it costs in a round.
    assert everybody.warmup_energy_j - env.warmup_energy_j == pytest.approx(everybody.costs_j[3], rel=1e-9)
    env.reset(seed=7)
    state, federation = env.get_state(), env._federation
    assert state["trained"].tolist() == [True, True, True, False]
    initial = envs.training.models.get_flat(federation._model(envs.federation.keyed_seed("initialisation", 7, 0)))
    averaged = federation._get_executor(7).train(initial, [0, 1, 2], RoundKey(7, 0, 0), epochs=1)
    assert torch.equal(state["weights"], aggregation.mean(averaged))


def test_data_size_is_a_share_of_the_largest_client_even_if_that_is_absent():
    env = quick(train_samples=(20, 20, 20, 40), churn=EVENTS)
    observations, _ = env.reset()
    sizes = [row[1] for row in observations.values()]
    observations, *_ = env.step({})
    assert sizes == [0.5] * 3 and [row[1] for row in observations.values()] == [0.5, 0.5, 0.5, 1.0]


def test_only_the_live_are_evaluated():
    env = quick(churn=EVENTS)
    env.reset()
    executor = env._federation._executor
    env.step({"client_001": 1})
    env.step({"client_001": 1})
    assert executor.evaluated == [(0, 1, 2), (0, 1, 2), (3,), (1, 2, 3)]
    env.step({})  # nobody trains: nothing to evaluate but the client that returns
    assert executor.evaluated[4:] == [(0,)]


def test_a_returning_client_is_another_agent_each_time():
    kinds = enumerate(["leave", "join", "leave", "join", "leave"], start=1)
    env = quick(rounds=8, churn=tuple(ChurnEvent(round_index, 1, kind) for round_index, kind in kinds))
    for seed in (1, None, 1):
        env.reset(seed=seed)
        assert env.possible_agents[:5] == ["client_000", "client_001", "client_001#1", "client_001#2", "client_002"]
        seen = []
        while env.agents:
            *_, infos = env.step({agent: 1 for agent in env.agents if agent.startswith("client_001")})
            seen.append("".join(agent.removeprefix("client_") for agent in infos if agent.startswith("client_001")))
        # A leaving client's last entry and a joining one's first are in the step at whose end they do so.
        assert seen == ["001", "001#1", "001#1", "001#2", "001#2", "", "", ""]
    assert env.action_space("client_001#2") is env.action_space("client_001")
    assert env.observation_space("client_001#2") is env.observation_space("client_000")


@pytest.mark.parametrize("joins_in_round", [2, 3])
def test_all_leave_at_once_and_a_join_in_the_same_step_keeps_the_episode_going(joins_in_round):
    env = quick(churn=(*(ChurnEvent(2, client, "leave") for client in range(3)), ChurnEvent(joins_in_round, 3, "join")))
    env.reset()
    env.step({"client_000": 1})
    observations, rewards, _, truncations, infos = env.step({"client_001": 1})
    done, joined = env.last_round, ["client_003"] * (joins_in_round == 2)
    assert env.agents == joined and list(truncations.values()) == [True] * 3 + [False] * len(joined)
    assert set(rewards.values()) == {0.0} and done.energy_j > 0
    assert done.trained == (1,) and done.departed == (0, 1, 2)
    if joined:  # which is alone in the mean that agents observe
        assert observations["client_000"][0] == observations["client_003"][2]
        assert infos["client_003"]["cost"] < env.budget_j
        env.step({"client_003": 1})
        assert env.last_round.trained == env.last_round.clients == (3,) and env.last_round.reward != 0.0
    else:
        assert observations["client_000"][0] == pytest.approx(done.mean_accuracy)
        with pytest.raises(ValueError, match=r"call reset\(\) first"):
            env.step({})
        assert list(env.reset()[0]) == ["client_000", "client_001", "client_002"]


def test_nobody_affordable_left():
    frequencies = (7e8, 7e8, 3e9, 3e9)
    costs = quick(cpu_freq_hz=frequencies).costs_j
    churn = (ChurnEvent(1, 0, "leave"), ChurnEvent(1, 1, "leave"))
    env = quick(cpu_freq_hz=frequencies, budget_j=float(costs[0]), churn=churn, on_overrun="drop")
    env.reset()
    *_, infos = env.step({"client_000": 1})
    assert min(info["cost"] for agent, info in infos.items() if agent in env.agents) > env.budget_j == costs[0]
    before = env.get_state()
    _, rewards, *_ = env.step(all_of(env))
    assert (env.last_round.trained, env.last_round.dropped, env.last_round.energy_j) == ((), (2, 3), 0.0)
    assert set(rewards.values()) == {0.0} and torch.equal(env.get_state()["weights"], before["weights"])
    assert env.last_round.accuracies == tuple(before["accuracies"][2:])


def test_the_budget_must_do_for_a_client_that_is_live_at_the_start():
    frequencies = (7e8, 3e9, 3e9, 3e9)
    budget_j = float(quick(cpu_freq_hz=frequencies).costs_j[0])
    assert quick(cpu_freq_hz=frequencies, budget_j=budget_j).budget_j == budget_j
    with pytest.raises(ValueError, match="is below the cheapest client: client_001 needs"):
        quick(cpu_freq_hz=frequencies, budget_j=budget_j, churn=(ChurnEvent(1, 0, "join"),))


@pytest.mark.usefixtures("any_executor")
def test_nothing_changes_before_the_first_event():
    """Rows of the rounds before an event, and training after it, are those of a federation without churn."""
    seen = []
    for churn in ((), (ChurnEvent(3, 0, "leave"),)):
        env = envs.parallel_env(**TINY, churn=churn)
        rows = [env.reset(seed=7)]
        for client in (1, 2, 1, 3):
            rows.append((env.step({f"client_{client:03d}": 1}), env.get_state()["weights"]))
        seen.append(plain(rows))
    without, with_churn = seen
    assert with_churn[:3] == without[:3]
    assert [row[1] for row in with_churn[3:]] == [row[1] for row in without[3:]]
    assert len(without[4][0][0]) == 4 and len(with_churn[4][0][0]) == 3


def test_the_state_of_another_schedule_is_refused():
    env = quick(churn=EVENTS)
    env.reset()
    env.step({})
    with pytest.raises(ValueError, match="client 0 is absent in it and not here"):
        quick().set_state(env.get_state())
    with pytest.raises(ValueError, match="client 3 is live in it and not here"):
        quick(churn=(*EVENTS[1:2], ChurnEvent(2, 3, "join"))).set_state(env.get_state())


def test_markov_draws_depend_on_nothing_but_seed_episode_round_and_client():
    rates = ([0.3] * 6, [0.5] * 6)
    live = (0, 2, 3, 5)
    changes = MarkovChurn(*rates).changes(live, 7, 2, 9)
    assert changes == MarkovChurn(*rates).changes(live, 7, 2, 9)
    # Another client's state or number of clients is no matter.
    larger = MarkovChurn([0.3] * 8, [0.5] * 8).changes((0, 2, 3, 5, 6, 7), 7, 2, 9)
    for kind in (0, 1):
        assert [client for client in larger[kind] if client < 6] == list(changes[kind])
    keys = [(7, 2, 9), (8, 2, 9), (7, 3, 9), (7, 2, 10), (9, 2, 7)]
    assert len({MarkovChurn([0.5] * 64, [0.5] * 64).changes(range(64), *key) for key in keys}) == 5


def test_markov_rates_are_those_asked_for():
    churn = MarkovChurn([0.0, 1.0, 0.2, 0.2], [1.0, 0.0, 0.1, 1.0])
    rounds = 4000
    live, presence, leaves = (0, 1, 2, 3), np.zeros(4), np.zeros(4)
    for round_index in range(1, rounds + 1):
        joined, left = churn.changes(live, 0, 0, round_index)
        leaves[list(left)] += 1
        presence[list(live)] += 1
        live = tuple(sorted({*live, *joined} - {*left}))
    assert leaves[:2].tolist() == [0, 1] and presence[:2].tolist() == [rounds, 1]
    # On/off chain: live a share of return / (leave + return) of the time, here 1/3 and 5/6; 4 standard errors.
    assert presence[2] / rounds == pytest.approx(1 / 3, abs=0.07)
    assert presence[3] / rounds == pytest.approx(5 / 6, abs=0.02)


def test_with_rates_the_possible_agents_grow_and_reset_starts_again():
    env = quick(churn_leave_rate=(0.0, 0.5, 0.5, 0.5), churn_return_rate=0.9, rounds=40)
    env.reset(seed=7)
    names = list(env.possible_agents)
    assert names == env.agents
    while env.agents:
        env.step({})
    # A stay and an absence take 1 / 0.5 + 1 / 0.9 = 3.1 rounds: about 13 stays in 40 rounds for each of three clients.
    assert 30 < len(env.possible_agents) < 50 and env.possible_agents == sorted(env.possible_agents)
    assert {agent.partition("#")[0] for agent in env.possible_agents} == set(names)
    env.reset()
    assert env.possible_agents == names


def test_a_state_does_not_grow_with_the_rounds():
    env = quick(num_clients=20, churn_leave_rate=0.2, churn_return_rate=0.5, rounds=300)
    env.reset(seed=7)
    sizes = []
    while env.agents:
        env.step({})
        sizes.append(len(pickle.dumps({**env.get_state(), "last_round": None, "live": None})))
    assert max(sizes[250:]) <= max(sizes[:20]) + 8


@st.composite
def schedules(draw):
    """Live at the start and rounds at whose end each client changes, by client; someone is live at the start."""
    count, rounds = draw(st.integers(1, 5)), draw(st.integers(2, 8))
    start = draw(st.lists(st.booleans(), min_size=count, max_size=count).filter(any))
    toggles = [sorted(draw(st.sets(st.integers(1, rounds - 1), max_size=4))) for _ in range(count)]
    # A client without events is live throughout.
    start = [live or not times for live, times in zip(start, toggles, strict=True)]
    return rounds, start, toggles


@settings(max_examples=40)
@given(schedules(), st.integers(0, 2**32 - 1), st.randoms(use_true_random=False))
def test_any_schedule(schedule, seed, shuffler):
    rounds, start, toggles = schedule
    events = [
        ChurnEvent(when, client, "leave" if live ^ bool(place % 2) else "join")
        for client, (live, times) in enumerate(zip(start, toggles, strict=True))
        for place, when in enumerate(times)
    ]
    shuffler.shuffle(events)
    env = quick(num_clients=len(start), rounds=rounds, churn=tuple(events), budget_share=1.0, on_overrun="drop")
    rng = np.random.default_rng(seed)
    env.reset(seed=0)
    possible, finished = list(env.possible_agents), set()
    for now in range(1, rounds + 1):
        # Live in this round: the number of changes before it decides.
        live = [on ^ bool(sum(when < now for when in times) % 2) for on, times in zip(start, toggles, strict=True)]
        before = list(env.agents)
        assert [int(agent[7:10]) for agent in before] == [client for client, on in enumerate(live) if on]
        if not before:
            break
        parts = env.step({agent: int(rng.integers(2)) for agent in before})
        _, rewards, terminations, truncations, _ = parts
        assert all(list(part) == list(parts[0]) for part in parts) and not any(terminations.values())
        assert set(parts[0]) == {*before, *env.agents} and not finished & set(parts[0])
        assert {agent for agent, over in truncations.items() if over} == set(before) - set(env.agents)
        assert all(rewards[agent] == 0.0 for agent in env.agents if agent not in before)
        assert all(env.observation_space(agent).contains(row) for agent, row in parts[0].items())
        finished |= set(before) - set(env.agents)
        assert env.last_round.energy_j <= env.budget_j * (1 + BUDGET_TOLERANCE)
        assert set(env.last_round.trained) <= set(env.last_round.clients)
    assert env.agents == [] and env.possible_agents == possible and finished <= set(possible)
