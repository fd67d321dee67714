"""Oort: utilities, cut-off, exploration and pace by hand; both runners, checkpoints, errors."""

from __future__ import annotations

import math

import numpy as np
import pytest
from fake_episode import adjusted as scores

from bippo_rllib.baselines.oort import PACE, PACER_ROUNDS, PACER_STEP, Oort
from bippo_rllib.baselines.rule_connector import RuleConnector

SIX = [f"client_{i}" for i in range(6)]
ONES = np.ones(6)


def reports(clients, utilities=None):
    """Infos of clients, of which those with a utility have trained; their loss is the utility."""
    utilities = utilities or {}
    return [{"num_samples": 1, "granted_j": float(c in utilities), "loss": utilities.get(c, 0.0)} for c in clients]


def after_rounds(oort: Oort, rounds: int, clients=SIX):
    """Plays rounds in which the first two train and have a utility of 1."""
    ones = np.ones(len(clients))
    for _ in range(rounds):
        order = oort.order(clients, reports(clients), ones, 2.0)
        oort.observe(clients, reports(clients, {clients[i]: 1.0 for i in order[:2]}))
    return oort


def firsts(oort: Oort, count: int, draws: int = 400, **changes):
    """Shares of the clients among the first ``count`` of the next order, which is drawn anew from one state."""
    state, seen = oort.get_state(), np.zeros(6)
    for seed in range(draws):
        again = Oort(seed)
        again.set_state({**state, "rng": np.random.default_rng(seed).bit_generator.state})
        order = again.order(**{"clients": SIX, "infos": reports(SIX), "costs": ONES, "budget": float(count), **changes})
        assert sorted(order) == list(range(6))
        seen[order[:count]] += 1
    return seen / draws


def known(utilities, rounds, round_now=10, exploration=0.2, pace=100):
    """An Oort that knows these utilities, from these rounds, and is about to order round ``round_now``."""
    oort = Oort(0)
    records = {SIX[i]: (float(u), r) for i, (u, r) in enumerate(zip(utilities, rounds, strict=True))}
    oort.set_state(
        {**oort.get_state(), "round": round_now - 1, "exploration": exploration, "pace": pace, "known": records}
    )
    return oort


def test_new_clients_are_tried_first_and_each_within_a_few_rounds():
    oort, tried = Oort(3), set()
    for _ in range(3):
        order = oort.order(SIX, reports(SIX), ONES, 2.0)
        # Two places, of which at least int(2 * (1 - 0.9 * 0.98 ** 3)) = 0 go to known clients.
        assert not tried & set(order[:2])
        tried |= set(order[:2])
        oort.observe(SIX, reports(SIX, {SIX[i]: 1.0 for i in order[:2]}))
    assert tried == set(range(6))


def test_places_of_new_clients_shrink_as_exploration_decays():
    # Four places; int(4 * (1 - 0.9 * 0.98)) = 0 go to the three known clients in round 1, at the end of the decay
    # int(4 * (1 - 0.2)) = 3 do.
    early, late = known([1, 1, 1], [1, 1, 1], exploration=0.9), known([1, 1, 1], [1, 1, 1], exploration=0.2)
    new_early, new_late = firsts(early, 4)[3:].sum(), firsts(late, 4)[3:].sum()
    assert new_early == pytest.approx(3.0)  # all three new ones, and one of the others as the fourth
    assert new_late == pytest.approx(1.0)


def test_known_clients_above_the_cut_off_are_drawn_in_proportion_to_utility():
    # All known, one place. Utilities 10, 9.9, 5, 5, 5, 5, all from round 9: normalised with low 4.995 and range 5.005
    # they are 1, 0.98002, 0.001 x 4, plus sqrt(0.1 * ln 10 / 9) = 0.15995 each: 1.15995, 1.13997, 0.16095.
    # The cut-off is 0.95 * 1.15995 = 1.10195: the first two, in the ratio 1.15995 : 1.13997, so 0.5043 of the draws.
    shares = firsts(known([10, 9.9, 5, 5, 5, 5], [9] * 6), 1, draws=2000)
    assert shares[2:].sum() == 0.0
    assert shares[0] == pytest.approx(1.15995 / (1.15995 + 1.13997), abs=0.035)


def test_clients_that_trained_long_ago_come_back():
    # Equal utilities; sqrt(0.1 ln 100 / 1) = 0.679 for the one that trained in round 1 only, 0.068 for the others.
    shares = firsts(known([5] * 6, [1, 99, 99, 99, 99, 99], round_now=100), 1)
    assert shares[0] == 1.0  # 0.95 * 1.679 is above 1.068


def test_costs_above_the_preferred_one_count_against_a_client():
    # The tenth percentile of six costs is the lowest, 1. A cost of 3 scales by 1/9.
    costs = np.array([3.0, 1.0, 1.0, 1.0, 1.0, 1.0])
    paced, unpaced = known([5] * 6, [9] * 6, pace=10), known([5] * 6, [9] * 6, pace=100)
    assert firsts(paced, 1, costs=costs, budget=3.0)[0] == 0.0
    assert firsts(unpaced, 1, costs=costs, budget=3.0)[0] > 0.1


def test_pace_relaxes_while_utility_is_flat_and_tightens_when_it_jumps():
    # In the first rounds nobody is known, so the first two windows differ; the second and the third are alike.
    oort = after_rounds(Oort(0), 3 * PACER_ROUNDS - 1)
    assert oort.get_state()["pace"] == PACE
    assert after_rounds(oort, 1).get_state()["pace"] == PACE + PACER_STEP
    jump = known([1] * 6, [9] * 6, round_now=2 * PACER_ROUNDS, pace=PACE + PACER_STEP)
    jump.set_state({**jump.get_state(), "history": [1.0] * PACER_ROUNDS + [6.0] * PACER_ROUNDS})
    assert after_rounds(jump, 1).get_state()["pace"] == PACE


@pytest.mark.parametrize("num_clients", [1, 2, 3, 10, 100])
@pytest.mark.parametrize("budget", [0.0, 1.0, 2.5, math.inf])
def test_every_number_of_clients_and_budget_is_ordered(num_clients, budget):
    oort = Oort(0)
    clients = [f"c{i}" for i in range(num_clients)]
    for round_number in range(50):
        order = oort.order(clients, reports(clients), np.linspace(1.0, 2.0, num_clients), budget)
        assert sorted(order) == list(range(num_clients))
        oort.observe(clients, reports(clients, {clients[i]: float(round_number % 3) for i in order[:3]}))


def test_a_joiner_is_tried_and_a_returner_is_remembered():
    oort = after_rounds(Oort(0), 5, clients=SIX[:4])
    assert SIX[4] not in oort.get_state()["known"]
    # Two places; exploration is 0.9 * 0.98 ** 6 = 0.797, so int(2 * 0.2) = 0 for the known and both for the new ones.
    assert set(oort.order(SIX, reports(SIX), ONES, 2.0)[:2]) == {4, 5}
    assert set(SIX[:4]) <= oort.get_state()["known"].keys()


def infos_after(*trained, **changes):
    """Infos of five agents after a step in which ``trained`` took part, with what is to be different."""
    losses = {"ann": 0.9, "bob": 2.5, "cat": 1.4, "dan": 3.0, "eve": 0.2}
    shared = {"cost": 2.0, "budget": 6.0, "num_samples": 10, "failed": False}
    return {
        name: {**shared, "loss": loss, "granted_j": 2.0 if name in trained else 0.0, **changes.get(name, {})}
        for name, loss in losses.items()
    }


def test_only_those_that_trained_are_known_by_the_loss_they_had():
    connector = RuleConnector(Oort(0))
    scores(connector, infos_after())
    infos = infos_after("ann", "dan", "eve", eve={"failed": True})
    del infos["bob"]["loss"]  # nobody looks at it
    assert sorted(scores(connector, infos).values()) == [1, 2, 3, 4, 5]
    # Losses 0.9 and 3.0 on 10 samples; what failed counts as never tried.
    assert connector.get_state()["known"] == {"ann": (pytest.approx(9.0), 1), "dan": (pytest.approx(30.0), 1)}


def test_returning_agents_continue_their_clients_record():
    connector = RuleConnector(Oort(0), client_of=lambda agent: agent.partition("#")[0])
    scores(connector, infos_after("ann"))  # before the first step nobody counts as tried
    assert not connector.get_state()["known"]
    scores(connector, {f"{name}#1": info for name, info in infos_after("ann").items()})
    assert list(connector.get_state()["known"]) == ["ann"]


def test_a_restored_connector_orders_as_the_one_it_was_saved_from():
    first = RuleConnector(Oort(0))
    for names in (("ann",), ("bob", "eve"), ("cat",)):
        scores(first, infos_after(*names))
    second = RuleConnector(Oort(99))
    second.set_state({})  # nothing to restore
    second.set_state(first.get_state())
    for names in (("dan",), ("ann", "bob"), ("eve",)):
        assert scores(first, infos_after(*names)) == scores(second, infos_after(*names))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"loss": -1.0}, r"'ann' has 'loss' = -1\.0; a loss is at least 0"),
        ({"loss": math.nan}, "'ann' has 'loss' = nan; it must be a finite number"),
        ({"loss": 1e300, "num_samples": 1e300}, "'ann' has a loss or num_samples too large"),
        ({"granted_j": None}, "'ann' has no 'granted_j', which Oort needs"),
    ],
)
def test_infos_that_cannot_be_used_are_refused(change, message):
    infos = infos_after("ann", ann=change)
    infos["ann"] = {key: value for key, value in infos["ann"].items() if value is not None}
    connector = RuleConnector(Oort(0))
    scores(connector, infos_after())
    with pytest.raises(ValueError, match=message):
        scores(connector, infos)
