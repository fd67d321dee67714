"""Rounds of a deployed selector without an algorithm: what is refused changes nothing, and who is away has left."""

from __future__ import annotations

import copy
import math
import subprocess
import sys
import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from source_tree import ROOT
from toy_selector import toy_reports, toy_selector, used_selector

from bippo_rllib import ClientReport, ClientSelector, Reward
from bippo_rllib.baselines.cyclic import Cyclic
from bippo_rllib.baselines.oort import Oort
from bippo_rllib.federated.ranking import RuleRanking
from bippo_rllib.federated.selector_file import pack
from bippo_rllib.method_settings import METHOD_SETTINGS
from bippo_rllib.selection.update_matching import UpdateMatching


def bits(selector: ClientSelector) -> bytes:
    """All that it holds."""
    return pack(selector._parts)


#: In the middle of a run, with all that a selector can have; copied, not changed.
USED = used_selector(matching=UpdateMatching())
USED.select(toy_reports(), 2.0)
RANKED = [used_selector(ranking=RuleRanking(rule()), strategy="greedy", prior=None) for rule in (Oort, Cyclic)]
NUMBERS = [math.nan, math.inf, -math.inf, -1.0, -1e-9, 1.5, 1e39, 1e308, 10**400, "many", "", None, [], {}, b"1"]
NUMBERS.append(object())
GIVEN = [*NUMBERS, 0.5, 0.5, 10, 10, [0.5] * 5, np.ones(5), [[0.5]], ["a"] * 5]
ENTRIES = st.sampled_from(["accuracy", "num_samples", "cost_j", "observation", "trained", "update_profile", "loss"])
CLIENTS = st.sampled_from(["client_000", "client_001", "client_001#1", "stranger", "\ud800", 3, ("site", 1), math.nan])
PROFILES = [*GIVEN, np.ones(4), [1e38, 0, 0, -1e38], [1e-300] * 4, np.zeros(4)]
KNOWN = {"accuracy": st.just(0.5), "num_samples": st.sampled_from([10, 1e308, 0.5]), "cost_j": st.just(1.0)}
BAD_REPORTS = st.dictionaries(
    CLIENTS,
    st.one_of(
        st.dictionaries(ENTRIES, st.sampled_from(GIVEN)),
        st.builds(
            ClientReport, **dict.fromkeys(("accuracy", "num_samples", "cost_j"), st.sampled_from([0.5, 0.5, *NUMBERS]))
        ),
        st.just({"accuracy": 0.5, "num_samples": 10, "cost_j": 1.0}),
        st.fixed_dictionaries(
            {**KNOWN, "update_profile": st.sampled_from(PROFILES), "loss": st.sampled_from([0.5, 0.5, 0.0, *NUMBERS])}
        ),
    ),
    max_size=4,
)
OF_CLIENTS = st.dictionaries(CLIENTS, st.sampled_from([0.5, 0.5, *NUMBERS]), max_size=4)


@settings(max_examples=200)
@given(
    reports=BAD_REPORTS,
    budget=st.sampled_from([2.0, 2.0, 2.0, 0.0, math.inf, *NUMBERS]),
    explore=st.sampled_from([None, True, False]),
    reward=st.sampled_from([None, Reward()]),
    used=st.sampled_from([USED, USED, *RANKED]),
)
def test_a_refused_selection_changes_nothing(reports, budget, explore, reward, used):
    selector = copy.deepcopy(used)
    selector._parts.reward = reward
    before = bits(selector)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        try:
            chosen = selector.select(reports, budget, explore=explore)
        except ValueError as error:
            assert bits(selector) == before and "\n" not in str(error)
        else:
            assert set(map(id, chosen)) <= set(map(id, reports)) and bits(selector)  # which can be saved


def test_settings_outlast_rounds_and_the_file_and_differ_between_methods(tmp_path):
    for used, fresh in ((USED, toy_selector(matching=UpdateMatching())), (RANKED[0], None), (RANKED[1], None)):
        used.save(tmp_path / "file")
        assert ClientSelector.load(tmp_path / "file").settings == (fresh or used).settings == used.settings
    of_methods = [ClientSelector.fresh(method).settings for method in METHOD_SETTINGS]
    assert all(of_methods.count(settings) == 1 for settings in of_methods)


def test_an_update_that_diverges_is_refused_and_the_round_can_be_reported_once_more():
    selector = copy.deepcopy(USED)
    with pytest.raises(ValueError, match=r"what 'client_00\d' would learn from the last rewards is not finite"):
        for _ in range(2):  # one of two fills the batches
            selector.update(sorted(toy_reports()), rewards=3e38)
            before = bits(selector)
            selector.select(toy_reports(), 3.0)
    assert bits(selector) == before
    selector.update(sorted(toy_reports()))
    assert len(selector.select(toy_reports(), 3.0)) == 3


def test_scores_that_are_no_numbers_are_refused_in_the_last_step_of_all():
    """After the update and with new policies, which are not kept: squares of what the prior reads overflow."""
    selector = copy.deepcopy(USED)
    selector._parts.prior.key = "reading"
    reports = {**toy_reports(), "new": toy_reports()["client_000"]}
    reports = {client: {**report, "reading": 1e300 if client == "new" else 1.0} for client, report in reports.items()}
    for _ in range(2):
        selector.update(sorted(toy_reports()), rewards=1.0)
        before = bits(selector)
        with warnings.catch_warnings(), pytest.raises(ValueError, match="'client_000' has score nan"):
            warnings.simplefilter("error")
            selector.select(reports, 2.0)
        assert bits(selector) == before
        selector.select({client: {**report, "reading": 1.0} for client, report in toy_reports().items()}, 3.0)


@settings(max_examples=200)
@given(
    selected=st.lists(CLIENTS, max_size=3),
    accuracies=st.one_of(st.none(), OF_CLIENTS),
    effects=st.one_of(st.none(), st.none(), OF_CLIENTS),
    rewards=st.one_of(st.none(), st.none(), OF_CLIENTS, st.sampled_from(NUMBERS)),
    reward=st.sampled_from([None, Reward(), Reward("accuracy_target", 1e308, 0.0), Reward("leave_one_out", 1e308)]),
)
def test_a_refused_report_changes_nothing(selected, accuracies, effects, rewards, reward):
    selector = copy.deepcopy(USED)
    selector._parts.reward = reward
    before = bits(selector)
    with warnings.catch_warnings():
        warnings.filterwarnings("error", category=RuntimeWarning)
        warnings.filterwarnings("ignore", message=".* now learn from another reward")
        try:
            selector.update(selected, accuracies, effects=effects, rewards=rewards)
        except ValueError as error:
            assert bits(selector) == before and "\n" not in str(error)
        else:
            assert [accuracies, effects, rewards].count(None) >= 2


@pytest.mark.parametrize("client", ["\ud800", "client_000"])
def test_a_refused_addition_or_removal_changes_nothing(client):
    selector = toy_selector()
    before = bits(selector)
    if client == "client_000":
        selector.add(client)  # is there
    else:
        with pytest.raises(ValueError, match="half of a surrogate pair"):
            selector.add(client)
        with pytest.raises(ValueError, match="there is no policy"):
            selector.remove(client)
    assert bits(selector) == before


def test_scores_are_those_of_the_update_that_select_will_make_and_write_nowhere():
    """All arrays may be read-only meanwhile."""
    selector, unchanged = toy_selector(), set()
    for number in range(4):  # of which every other one fills a batch
        selector.select(toy_reports(), 3.0)
        selector.update(sorted(toy_reports()), rewards=float(number))
        parts, before = selector._parts, bits(selector)
        arrays = [parts.last.rewards, *parts.trainer.buffer._arrays.values()]
        for array in arrays:
            array.flags.writeable = False
        seen = selector.scores({**toy_reports(), "new": toy_reports()["client_000"]}, 2.0)
        assert list(seen) == [*toy_reports(), "new"] and bits(selector) == before
        for array in arrays:
            array.flags.writeable = True
        seen, twin, learned = selector.scores(toy_reports(), 2.0), copy.deepcopy(selector), copy.deepcopy(selector)
        twin.select(toy_reports(), 2.0)
        weights = twin._parts.trainer.policies.flat
        unchanged.add(weights.equal(parts.trainer.policies.flat))
        learned._parts.trainer.policies.flat[:] = weights
        learned._parts.last.rewards[:] = math.nan
        assert learned.scores(toy_reports(), 2.0) == seen
    assert unchanged == {True, False}


@pytest.mark.parametrize("stored", [False, True])
@pytest.mark.parametrize("reports", [{}, {"other": {"accuracy": 0.1, "num_samples": 10, "cost_j": 1.0}}])
def test_who_is_away_for_a_round_has_left_whether_or_not_anybody_is_there(tmp_path, reports, stored):
    """What it did is not learned from, and its sequence of participations ends; also through a file."""
    selector = toy_selector(3)
    everyone = sorted(toy_reports())
    for number in range(2):  # one participation waits, and another would fill the batch
        selector.select(toy_reports(), 3.0)
        selector.update(everyone, rewards=1.0)
        assert selector._parts.trainer.buffer.counts[:3].tolist() == [number] * 3
    assert not selector._parts.trainer.buffer.get_state(np.arange(3))["ends"][:, 0].any()
    selector.select(reports, 3.0)
    if stored:
        selector.save(tmp_path / "file")
        selector = ClientSelector.load(tmp_path / "file")
    selector.update([], rewards=0.0)
    selector.update([], {}) if not reports else None
    with pytest.raises(ValueError, match="cannot have trained: no such clients in the last select"):
        selector.update(everyone, rewards=1.0)
    selector.select(toy_reports(accuracy=0.9), 3.0)
    buffer = selector._parts.trainer.buffer
    assert buffer.counts[:3].tolist() == [1] * 3 and buffer.get_state(np.arange(3))["ends"][:, 0].all()
    assert selector._parts.last.observations[:, 4].tolist() == [0.0] * 3  # nobody trained in the round before


@pytest.mark.parametrize("value", [3.5e38, -1e300])
def test_numbers_beyond_float32_are_refused_without_a_warning(value):
    selector, other = toy_selector(), toy_selector(obs_dim=2, prior=None)
    selector.select(toy_reports(), 3.0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(ValueError, match=r"'client_000' has reward = "):
            selector.update(["client_000"], rewards=value)
        with pytest.raises(ValueError, match=r"'a' has observation = .* 2 finite numbers"):
            other.select({"a": {"observation": [value, 0.0], "cost_j": 1.0}}, 1.0)
        selector.select(toy_reports(cost=abs(value)), 1e-5)  # a share of the budget that no float32 holds


def test_another_reward_than_the_one_trained_on_is_warned_of():
    for reward, reported in (
        (Reward(), {"effects": {"client_000": 0.1}}),
        (Reward("leave_one_out"), {"accuracies": {}}),
    ):
        selector = toy_selector(reward=reward)
        selector.select(toy_reports(), 3.0)
        with pytest.warns(UserWarning, match=f"policies trained on {reward.name} now learn from another reward"):
            selector.update(["client_000"], **reported)


@pytest.mark.parametrize(
    ("values", "named"),
    [(["best"], "'best'"), (["leave_one_out", 0.0], "base is 0"), (["accuracy_change", 64.0, 2.0], "target is 2")],
)
def test_a_reward_out_of_range_is_refused(values, named):
    with pytest.raises(ValueError, match=named):
        Reward(*values)


@pytest.mark.slow
def test_beside_a_package_envs_of_another_project_it_selects_and_learns_alike(tmp_path):
    """Whose code is not run."""
    (tmp_path / "envs").mkdir()
    (tmp_path / "envs" / "__init__.py").write_text("raise SystemExit('imported')\n")
    selector = toy_selector()
    selector.save(tmp_path / "selector.safetensors")
    code = f"""
import sys
sys.path.append({str(ROOT)!r})
from bippo_rllib import ClientSelector
selector = ClientSelector.load("selector.safetensors")
for accuracy in (0.3, 0.5, 0.6):
    chosen = selector.select({{c: {{**r, "accuracy": accuracy}} for c, r in {toy_reports()!r}.items()}}, 2.0)
    selector.update(chosen, dict.fromkeys(chosen, accuracy + 0.1))
selector.save("after.safetensors")
"""
    subprocess.run([sys.executable, "-c", code], cwd=tmp_path, check=True)
    for accuracy in (0.3, 0.5, 0.6):
        chosen = selector.select({c: {**r, "accuracy": accuracy} for c, r in toy_reports().items()}, 2.0)
        selector.update(chosen, dict.fromkeys(chosen, accuracy + 0.1))
    assert (tmp_path / "after.safetensors").read_bytes() == bits(selector)


def test_who_trained_is_recorded_without_a_reward():
    """Policies see it, and learn nothing from the round, as without an update."""
    selector, without = toy_selector(), toy_selector()
    for each in (selector, without):
        assert len(each.select(toy_reports(), 1.0)) == 1
    selector.update(["client_000", "client_002"])
    for each in (selector, without):
        each.select(toy_reports(), 1.0)
    assert selector._parts.last.observations[:, 4].tolist() == [1.0, 0.0, 1.0]
    assert selector._parts.trainer.buffer.counts[:3].tolist() == [0] * 3
    assert selector._parts.trainer.policies.flat.equal(without._parts.trainer.policies.flat)


@pytest.mark.parametrize(
    "order", [["update", "remove", "add"], ["remove", "update", "add"], ["remove", "add", "update"]]
)
@pytest.mark.parametrize("stored", [False, True])
def test_a_policy_learns_nothing_from_a_round_in_which_another_one_of_its_name_acted(order, stored, tmp_path):
    selector, others = toy_selector(), toy_selector()
    for each in (selector, others):
        each.select(toy_reports(), 3.0)
    others.update(list(toy_reports()), rewards=1.0)
    for step in order:
        if step == "update":
            selector.update(list(toy_reports()), rewards=1.0)
        else:
            getattr(selector, step)("client_000")
        if stored:
            selector.save(tmp_path / "file")
            selector = ClientSelector.load(tmp_path / "file")
    for each in (selector, others):
        each.select(toy_reports(), 3.0)
    ours, theirs = (dict(zip(p.ids, b.counts, strict=False)) for p, b in map(parts_that_learn, (selector, others)))
    assert theirs == dict.fromkeys(toy_reports(), 1)
    assert ours == {**theirs, "client_000": 0}


def parts_that_learn(selector):
    return selector._parts.trainer.policies, selector._parts.trainer.buffer


def test_clients_that_come_and_go_take_no_more_memory_than_those_that_are_there():
    """And the policy that takes another one's slot is as fresh as in a slot of its own."""
    selector, kept = used_selector(), used_selector()
    capacity = selector._parts.trainer.policies.capacity
    for client in range(50):
        selector.remove("client_001" if client == 0 else f"late_{client - 1}")
        selector.add(f"late_{client}")
    kept.add("late_49")
    assert selector._parts.trainer.policies.capacity == capacity
    ours, theirs = (each._parts.trainer for each in (selector, kept))
    for policy_id in ("client_000", "client_002", "late_49"):
        slots = [trainer.policies.slots_of([policy_id]) for trainer in (ours, theirs)]
        for part in ("adam", "buffer"):
            states = [getattr(t, part).get_state(s) for t, s in zip((ours, theirs), slots, strict=True)]
            np.testing.assert_equal(*states)
        assert ours.policies.flat[slots[0]].equal(theirs.policies.flat[slots[1]])
