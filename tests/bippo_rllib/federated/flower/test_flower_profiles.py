"""``bippo-s`` in the Flower strategy: update profiles made at the server, and Shapley effects."""

from __future__ import annotations

import itertools
from types import SimpleNamespace

import numpy as np
import pytest
from flower_nodes import COSTS_J, NAMES, TRAINED_WEIGHT, Nodes, error, note_selections, run, selector
from flwr.app import Array, ArrayRecord
from flwr.serverapp import strategy as fl

from bippo_rllib import Reward
from bippo_rllib.federated.flower import BudgetedStrategy
from bippo_rllib.federated.flower.profiles import profiles_of
from bippo_rllib.federated.reports import ClientReport
from bippo_rllib.federated.update_profiles import update_profile
from bippo_rllib.selection.update_matching import UpdateMatching

REPORT = {"accuracy": 0.5, "num_samples": 4, "cost_j": 1.0}

pytestmark = pytest.mark.usefixtures("in_a_flower_task")


def matching_selector():
    return selector(reward=Reward("shapley"), matching=UpdateMatching())


def test_it_selects_and_learns_as_if_it_was_updated_by_hand():
    """Profiles and Shapley values recomputed from what the nodes do, over all orders of the participants."""
    strategy, by_hand = BudgetedStrategy(fl.FedAvg(), matching_selector(), 4.0), matching_selector()
    run(strategy, Nodes(), rounds=5)
    mean, sketches, chosen = 0.25, {}, []
    for server_round in range(1, 6):
        reports = {
            name: ClientReport(
                accuracy=mean, num_samples=10, cost_j=cost, trained=name in chosen if server_round > 1 else None
            )
            for name, cost in zip(NAMES, COSTS_J, strict=True)
        }
        for name in chosen:
            object.__setattr__(reports[name], "update_profile", sketches[name])
        chosen = by_hand.select(reports, 4.0)
        records = [record for record in strategy.history if record["round"] == server_round]
        assert {record["client"] for record in records if record["selected"]} == set(chosen)
        weights = {name: TRAINED_WEIGHT[NAMES.index(name)] for name in chosen}
        sketches = {name: update_profile(np.array([mean]), np.array([w]), 10) for name, w in weights.items()}
        effects, before = shapley(weights, mean), mean
        mean = float(np.mean(list(weights.values())))
        found = {record["client"]: record["effect"] for record in records if record["effect"] is not None}
        assert sum(found.values()) == pytest.approx(mean - before)
        if len(chosen) <= 3:
            assert found == pytest.approx(effects)
        by_hand.update(chosen, effects=found)
    assert len({record["client"] for record in strategy.history if record["selected"]}) > 2


def shapley(weights, before):
    def value(names):
        return float(np.mean([weights[name] for name in names])) if names else before

    orders = list(itertools.permutations(weights))
    sums = dict.fromkeys(weights, 0.0)
    for order in orders:
        for place, name in enumerate(order):
            sums[name] += value(order[: place + 1]) - value(order[:place])
    return {name: total / len(orders) for name, total in sums.items()}


def test_a_new_run_is_of_another_model_whose_updates_are_not_compared_with_earlier_ones(tmp_path, monkeypatch):
    strategy = BudgetedStrategy(fl.FedAvg(), matching_selector(), 4.0)
    run(strategy, Nodes(), rounds=3)
    strategy.save(tmp_path / "run")
    again = BudgetedStrategy(fl.FedAvg(), matching_selector(), 4.0)
    again.load(tmp_path / "run")
    seen = [note_profiles(each, monkeypatch) for each in (strategy, again)]
    run(strategy, Nodes(), rounds=1)
    run(again, Nodes(), rounds=4)
    assert seen[0][0] == {} and seen[1][0] != {}
    assert strategy.selector.policy_ids == again.selector.policy_ids


def note_profiles(strategy, monkeypatch):
    """Notes the profiles that a selector has when it begins to select."""
    seen, select = [], strategy.selector.select

    def noting(*args, **kwargs):
        seen.append(dict(strategy.selector._parts.matching.get_state()["profiles"]))
        return select(*args, **kwargs)

    monkeypatch.setattr(strategy.selector, "select", noting)
    return seen


class AwayOnce(Nodes):
    """Client 1 does not evaluate the model after round 1."""

    def evaluate(self, message, client):
        return error(message, "away") if client == self.evaluations == 1 else super().evaluate(message, client)


def test_profiles_are_of_clients_that_trained_since_and_wait_for_those_that_are_away(monkeypatch):
    strategy = BudgetedStrategy(fl.FedAvg(), matching_selector(), 9.0, learn=None)
    seen = note_selections(strategy, monkeypatch)
    run(strategy, AwayOnce(), rounds=3)
    with_profile = [{c for c, report in reports.items() if report.update_profile is not None} for reports in seen]
    assert with_profile == [set(), set(NAMES) - {NAMES[1]}, set(NAMES)]


@pytest.mark.parametrize(
    "make",
    [
        *(fl.Krum, fl.FedAdam),
        *(lambda: fl.Bulyan(num_malicious_nodes=0), lambda: fl.QFedAvg(client_learning_rate=0.1)),
    ],
)
def test_profiles_are_of_what_was_sent_whatever_the_strategy_does_with_it(make, monkeypatch):
    strategy = BudgetedStrategy(make(), matching_selector(), 9.0, learn=None)
    seen = note_selections(strategy, monkeypatch)
    run(strategy, Nodes(), rounds=2)
    for client, trained in zip(NAMES, TRAINED_WEIGHT, strict=True):
        expected = update_profile(np.array([0.25]), np.array([trained]), 10)
        assert np.array_equal(seen[1][client].update_profile, expected)


def record(**arrays):
    return ArrayRecord({name: Array(np.asarray(array)) for name, array in arrays.items()})


def reply(arrays):
    return SimpleNamespace(content=SimpleNamespace(array_records={"a": arrays}))


def test_a_profile_is_of_trained_real_numbers_alone():
    before = record(w=np.float32([1, 2]), **{"bn.running_mean": np.float32([5]), "bn.num_batches_tracked": np.int64(3)})
    after = record(w=np.float32([2, 1]), **{"bn.running_mean": np.float32([9]), "bn.num_batches_tracked": np.int64(8)})
    found = profiles_of({"a": reply(after)}, before, {"a": ClientReport(**REPORT)}, 64)
    assert np.array_equal(found["a"], update_profile(np.float32([1, 2]), np.float32([2, 1]), 4))


def of_bytes(data):
    """An array that is none."""
    array = Array(np.float32([1, 2]))
    array.data = data
    return ArrayRecord({"w": array})


NO_ARRAYS = [of_bytes(data) for data in (b"", b"junk", b"PK\x03\x04junk", b"\x93NUMPY\x01\x00")]


@pytest.mark.parametrize(
    "sent",
    [
        *(record(w=np.float32([1, np.nan])), record(v=np.float32([1, 2])), record(w=np.float32([1])), record()),
        *NO_ARRAYS,
    ],
)
def test_what_cannot_be_sketched_costs_its_client_the_profile_only(sent, caplog):
    reports = {name: ClientReport(**REPORT) for name in "ab"}
    before = record(w=np.float32([0, 0]))
    found = profiles_of({"a": reply(sent), "b": reply(record(w=np.float32([1, 1])))}, before, reports, 64)
    assert set(found) == {"b"} and "no update profile of 'a'" in caplog.text


class OddOnce(Nodes):
    """Client 3 sends something else after its training in round 2, to a model of many weights."""

    def __init__(self, arrays):
        super().__init__()
        self.arrays, self.trainings = arrays, 0

    def train(self, message, client):
        reply, self.trainings = super().train(message, client), self.trainings + 1
        weights = ArrayRecord({"w": Array(np.full(MANY, reply.content["a"]["w"].numpy()[0]))})
        reply.content["a"] = self.arrays if client == 3 and 6 < self.trainings <= 12 else weights
        return reply


MANY = 10_000
#: Of which sums do not fit into float32, although each does.
HUGE = record(w=np.full(MANY, 3e38))


@pytest.mark.parametrize("sent", [*NO_ARRAYS, HUGE])
def test_no_reply_to_a_training_ends_the_run(sent):
    strategy = BudgetedStrategy(fl.FedAvg(), matching_selector(), 9.0, learn=None)
    start = ArrayRecord({"w": Array(np.full(MANY, 0.25))})
    result = strategy.start(OddOnce(sent), start, num_rounds=4)
    assert [metrics["num-selected"] for metrics in result.train_metrics_clientapp.values()] == [6, 6, 6, 6]
    assert len(result.arrays["w"].numpy()) == MANY


def test_without_a_selector_that_reads_them_none_are_made(monkeypatch):
    made = []
    monkeypatch.setattr("bippo_rllib.federated.flower.strategy.profiles_of", lambda *args: made.append(args) or {})
    strategy = BudgetedStrategy(fl.FedAvg(), selector(), 9.0)
    run(strategy, Nodes(), rounds=2)
    assert made == [] and any(record["trained"] for record in strategy.history)
