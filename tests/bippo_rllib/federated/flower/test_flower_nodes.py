"""The Flower strategy where nodes reply what cannot be used."""

from __future__ import annotations

import math

import numpy as np
import pytest
from flower_nodes import COSTS_J, NAMES, Nodes, error, note_selections, run, selector
from flwr.app import Array, ArrayRecord, Message, MetricRecord, RecordDict
from flwr.serverapp.strategy import FedAvg
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from bippo_rllib.federated.flower import BudgetedStrategy, client_of

BUDGET_J = 9.0
NAN, INF = float("nan"), float("inf")
LEARN = [None, "accuracies", "effects"]
KEYS = ["accuracy", "num-train-examples", "cost-j", "client-id"]
NUMBERS = st.one_of(st.floats(), st.integers(-(2**62), 2**62), st.lists(st.floats(), max_size=2), st.none())

pytestmark = pytest.mark.usefixtures("in_a_flower_task")


class OddNode(Nodes):
    """Client 3 replies otherwise than it should from evaluation ``since`` to the one before ``until``."""

    def __init__(self, metrics, since=2, until=4):
        super().__init__()
        self.metrics, self.odd_evaluations = metrics, range(since, until)

    def evaluate(self, message, client):
        self.odd = {3: self.metrics} if self.evaluations in self.odd_evaluations else {}
        return super().evaluate(message, client)


def budgeted(**settings):
    return BudgetedStrategy(FedAvg(), selector(), BUDGET_J, **settings)


@pytest.mark.parametrize(
    ("metrics", "text"),
    [
        ({"accuracy": NAN}, "has accuracy = nan"),
        ({"accuracy": 1.01}, "has accuracy = 1.01; expected a finite number at least 0 and at most 1"),
        ({"accuracy": [0.5]}, "has accuracy = [0.5]"),
        ({"num-train-examples": 0}, "has num-train-examples = 0; expected a finite number at least 1"),
        ({"cost-j": INF}, "has cost-j = inf"),
        ({"cost-j": -0.5}, "has cost-j = -0.5; expected a finite number at least 0"),
        ({"cost-j": None}, "replied without cost-j; its MetricRecord has accuracy, num-train-examples, num-examples"),
        *(({"client-id": value}, f"has no client: client-id = {value}") for value in (NAN, 2.5, -1, [3])),
        ({"client-id": 2}, "replies as 'client_002', as node 102 does"),
    ],
)
def test_a_node_that_replies_what_cannot_be_used_is_named_and_not_available(metrics, text, caplog):
    nodes = OddNode(metrics)
    result = run(budgeted(), nodes, rounds=4)
    # Evaluation 2 comes after round 2, so that rounds 3 and 4 are without it.
    assert [m["num-selected"] for m in result.train_metrics_clientapp.values()] == [6, 6, 5, 5]
    assert [m["energy-j"] for m in result.train_metrics_clientapp.values()] == [9.0, 9.0, 7.0, 7.0]
    for server_round in (3, 4):
        assert f"not available in round {server_round}: node 103 {text}" in caplog.text
    assert len(result.evaluate_metrics_clientapp) == 4
    assert all(math.isfinite(metrics["accuracy"]) for metrics in result.evaluate_metrics_clientapp.values())


@settings(max_examples=20, suppress_health_check=[HealthCheck.function_scoped_fixture], derandomize=True)
@given(
    metrics=st.dictionaries(st.sampled_from(KEYS), NUMBERS, min_size=1),
    since=st.integers(0, 3),
    learn=st.sampled_from(LEARN),
)
def test_no_reply_of_one_node_costs_the_others_a_round(metrics, since, learn):
    result = run(budgeted(learn=learn), OddNode(metrics, since, until=99), rounds=3)
    assert len(result.train_metrics_clientapp) == 3
    assert all(m["num-selected"] >= 4 and m["energy-j"] <= BUDGET_J for m in result.train_metrics_clientapp.values())
    assert math.isfinite(float(result.arrays["w"].numpy()[0]))


@pytest.mark.parametrize(("accuracy", "taken"), [(1.0 + 1e-7, 1.0), (-1e-9, 0.0)])
def test_an_accuracy_may_be_rounded_beyond_its_limits(accuracy, taken, caplog, monkeypatch):
    strategy = budgeted()
    seen = note_selections(strategy, monkeypatch)
    run(strategy, OddNode({"accuracy": accuracy}, since=0), rounds=1)
    assert seen[0]["client_003"].accuracy == taken and "not available" not in caplog.text


def test_of_two_nodes_that_reply_as_one_client_the_known_one_is_believed():
    nodes = OddNode({"client-id": 2}, since=1)
    result = run(budgeted(), nodes, rounds=2)
    assert result.train_metrics_clientapp[2]["energy-j"] == sum(COSTS_J) - COSTS_J[3]
    nodes = OddNode({"client-id": 2}, since=0)  # nobody knows whose client 2 is
    result = run(budgeted(), nodes, rounds=1)
    assert result.train_metrics_clientapp[1]["energy-j"] == sum(COSTS_J) - COSTS_J[3] - COSTS_J[2]


def test_clients_that_would_share_a_policy_are_two_of_the_same_name():
    names = {100: "a#1", 101: "a#2"}
    result = run(budgeted(client_of=lambda node_id, metrics: names.get(node_id, node_id)), Nodes(), rounds=1)
    assert result.train_metrics_clientapp[1]["num-selected"] == 4


@pytest.mark.parametrize("raised", [KeyError("region"), ZeroDivisionError("by zero")])
def test_a_function_of_the_users_that_fails_on_a_reply_costs_that_node_only(raised, caplog):
    def named(node_id, metrics):
        if node_id == 103:
            raise raised
        return client_of(node_id, metrics)

    result = run(budgeted(client_of=named), Nodes(), rounds=2)
    assert result.train_metrics_clientapp[2]["num-selected"] == 5
    assert f"node 103 has no client: {type(raised).__name__}: {raised}" in caplog.text


def test_a_client_must_be_hashable():
    with pytest.raises(ValueError, match="node 100 has no client: TypeError: unhashable"):
        run(budgeted(client_of=lambda node_id, metrics: []), Nodes())


def test_where_no_node_replies_rightly_to_the_first_evaluation_the_reason_is_raised():
    """Nothing is trained yet, so that nothing is lost."""
    nodes = Nodes()
    nodes.odd = {client: {"cost-j": None} for client in range(6)}
    with pytest.raises(ValueError, match="no reply to the first evaluation can be used: node 100 replied without c"):
        run(budgeted(), nodes)
    assert nodes.trained() == []
    with pytest.raises(ValueError, match=r"node 100 replies as 'same', as node 101 does; .* 1 more$"):
        run(budgeted(client_of=lambda node_id, metrics: "same"), Nodes())


def test_a_node_that_fails_with_a_traceback_is_named_with_its_last_line(caplog):
    class Failing(Nodes):
        def evaluate(self, message, client):
            return error(message, "Traceback:\n  File x\nno such folder: 'images'")

    run(budgeted(), Failing(), rounds=1)
    assert "(node 100 failed: no such folder: 'images'; node 101" in caplog.text


def test_where_all_nodes_reply_wrongly_later_the_reports_before_are_used(caplog):
    class Wrong(Nodes):
        def evaluate(self, message, client):
            self.odd = {node: {"accuracy": NAN} for node in range(6)} if self.evaluations else {}
            return super().evaluate(message, client)

    result = run(budgeted(learn="accuracies"), Wrong(), rounds=3)
    assert [m["num-selected"] for m in result.train_metrics_clientapp.values()] == [6, 6, 6]
    assert "no evaluation after round 2 can be used (node 100 has accuracy = nan" in caplog.text


@pytest.mark.parametrize("metrics", [{"loss": 0.5}, {"num-examples": [5]}, {"num-examples": None}])
def test_replies_that_flower_cannot_average_cost_the_metrics_of_an_evaluation_only(metrics, caplog):
    result = run(budgeted(), OddNode(metrics, since=1, until=2), rounds=2)
    assert list(result.evaluate_metrics_clientapp) == [2] and len(result.arrays) == 1
    assert "round 1 has no evaluation metrics: InconsistentMessageReplies: " in caplog.text


UNFIT = {
    "keys": ({"w": 0.1}, {"examples": 10}),
    "arrays": ({"v": 0.1}, {"num-examples": 10, "train_loss": 0.5}),
    "value": ({"w": 0.1}, {"num-examples": 10, "train_loss": [0.5]}),
}


class Unfit(Nodes):
    """Client 3 replies to the training of a round with what cannot be averaged with the others'."""

    def __init__(self, what, server_round):
        super().__init__()
        self.what, self.server_round = UNFIT[what], server_round

    def train(self, message, client):
        if client != 3 or message.content["config"]["server-round"] != self.server_round:
            return super().train(message, client)
        arrays, metrics = self.what
        record = ArrayRecord({key: Array(np.array([value])) for key, value in arrays.items()})
        return Message(RecordDict({"a": record, "m": MetricRecord(metrics)}), reply_to=message)


@pytest.mark.parametrize("what", UNFIT)
@pytest.mark.parametrize("learn", LEARN)
def test_a_training_that_does_not_fit_the_others_costs_a_round_only(what, learn, caplog):
    result = run(budgeted(learn=learn), Unfit(what, 2), rounds=3)
    assert len(result.arrays) == 1 and result.train_metrics_clientapp[2]["num-selected"] == 6
    assert "round 2 is lost: " in caplog.text and "round 2 made no model: 6 of 6 clients trained" in caplog.text


@pytest.mark.parametrize("what", UNFIT)
def test_in_the_first_round_it_is_an_error_as_in_flower(what):
    with pytest.raises(Exception, match=r"same keys|can only concatenate list|unsupported operand"):
        run(budgeted(), Unfit(what, 1))


def test_nodes_without_a_client_id_are_said_to_get_fresh_policies(caplog):
    nodes = Nodes()
    nodes.odd = {client: {"client-id": None} for client in range(6)}
    strategy = budgeted()
    run(strategy, nodes, rounds=2)
    assert {"100", "105", *NAMES} <= set(strategy.selector.policy_ids)
    assert caplog.text.count("no client-id from nodes 100, 101, 102, 103, 104 and 1 more") == 1
