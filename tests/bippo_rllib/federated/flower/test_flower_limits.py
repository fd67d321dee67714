"""Budgets by the round, batteries and eligible clients in the Flower strategy."""

from __future__ import annotations

import math

import pytest
from flower_nodes import COSTS_J, NAMES, Nodes, run, selector
from flwr.app import ConfigRecord, Message
from flwr.serverapp.strategy import FedAvg
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from bippo_rllib.federated.flower import BudgetedStrategy

ALL_J = 9.0

pytestmark = pytest.mark.usefixtures("in_a_flower_task")


def budgeted(budget_j=ALL_J, **settings):
    return BudgetedStrategy(FedAvg(), selector(), budget_j, **settings)


def energies_j(result):
    return [metrics["energy-j"] for metrics in result.train_metrics_clientapp.values()]


def test_a_budget_may_depend_on_the_round_and_one_that_is_none_costs_its_round_only(caplog):
    budgets_j = {1: 9.0, 2: 0.5, 3: 2.0, 4: math.nan, 5: 9.0}
    energies = energies_j(run(budgeted(lambda server_round: budgets_j[server_round]), Nodes(), rounds=5))
    assert energies[:2] == [9.0, 0.0] and 0 < energies[2] <= 2.0 and energies[3:] == [0.0, 9.0]
    assert "budget_j(4) cannot be used: budget_j is nan" in caplog.text


@pytest.mark.parametrize("bad", [lambda r: -1.0, lambda r: math.nan, lambda r: None, lambda r: 1 / 0, lambda: 1.0])
def test_a_budget_that_is_none_is_refused_before_it_starts(bad):
    with pytest.raises(ValueError, match=r"budget_j\(1\) cannot be used: ") as raised:
        budgeted(bad)
    assert "\n" not in str(raised.value)


@settings(max_examples=15, suppress_health_check=[HealthCheck.function_scoped_fixture], derandomize=True)
@given(batteries=st.dictionaries(st.sampled_from(NAMES), st.floats(0, 7), min_size=1), budget_j=st.floats(1, 9))
def test_no_client_spends_more_than_its_battery_held(batteries, budget_j):
    nodes, strategy = Nodes(), budgeted(budget_j, batteries_j=batteries)
    nodes.failing = {2}  # its energy is spent all the same
    run(strategy, nodes, rounds=5)
    for name, held_j in batteries.items():
        client = NAMES.index(name)
        assert strategy.batteries_j[name] == pytest.approx(held_j - COSTS_J[client] * nodes.trained().count(client))
        assert strategy.batteries_j[name] >= 0.0


def test_an_empty_battery_ends_the_training_of_its_client_and_a_charged_one_resumes_it():
    strategy, nodes = budgeted(batteries_j={"client_001": 4.0}), Nodes()

    def charge(server_round, arrays):
        if server_round == 3:
            strategy.batteries_j["client_001"] += 2.0

    run(strategy, nodes, rounds=4, evaluate_fn=charge)
    assert [record["selected"] for record in strategy.history if record["client"] == "client_001"][1:] == [
        *[True, True, False, True]
    ]
    assert strategy.batteries_j == {"client_001": 0.0}


@pytest.mark.parametrize("left_j", [-1.0, math.nan, "full"])
def test_a_battery_holds_a_number(left_j):
    with pytest.raises(ValueError, match=r"'client_002' has battery_j = .*at least 0"):
        budgeted(batteries_j={"client_002": left_j})


def test_a_battery_of_an_unknown_client_is_warned_of(caplog):
    run(budgeted(batteries_j={"client_2": 1.0, "client_003": 99.0}), Nodes(), rounds=2)
    assert caplog.text.count("batteries_j has 'client_2', which has not reported") == 1


class Groups(Nodes):
    """Nodes send which group they are of as text, beside numbers."""

    def evaluate(self, message, client):
        reply = super().evaluate(message, client)
        content = reply.content
        content["tags"] = ConfigRecord({"group": "even" if client % 2 == 0 else "odd"})
        return Message(content, reply_to=message)


def test_clients_are_eligible_by_what_their_nodes_send_and_the_round():
    seen = []

    def eligible(client, metrics, server_round):
        seen.append((client, metrics["num-examples"]))
        return metrics["group"] == ("even" if server_round % 2 else "odd")

    nodes = Groups()
    strategy = budgeted(eligible=eligible, learn="effects")
    run(strategy, nodes, rounds=4)
    trained = {record["round"]: set() for record in strategy.history}
    for record in strategy.history:
        trained[record["round"]] |= {record["client"]} if record["trained"] else set()
    assert trained[1] == trained[3] == set(NAMES[::2]) and trained[2] == trained[4] == set(NAMES[1::2])
    assert set(seen) == {(name, 5) for name in NAMES}


def test_a_client_that_is_not_eligible_for_a_round_learns_from_the_one_before():
    """It has not left: else two groups that take turns would never learn anything."""
    strategy = budgeted(eligible=lambda client, metrics, server_round: server_round == 1, learn="effects")
    fresh = selector().scores
    run(strategy, Nodes(), rounds=2)
    reports = {name: {"accuracy": 0.4, "num_samples": 10, "cost_j": 1.0} for name in NAMES}
    assert strategy.selector.scores(reports, 3.0) != fresh(reports, 3.0)


def test_a_function_that_fails_for_a_client_costs_that_client_its_round(caplog):
    def eligible(client, metrics, server_round):
        return client != "client_004" or metrics["group"]

    nodes = Nodes()
    run(budgeted(eligible=eligible), nodes, rounds=1)
    assert sorted(nodes.trained()) == [0, 1, 2, 3, 5]
    assert "not selected in round 1: eligible fails for 'client_004': KeyError: 'group'" in caplog.text


def test_nodes_may_have_names():
    class Named(Nodes):
        def evaluate(self, message, client):
            self.odd = {client: {"client-id": None} for client in range(6)}
            reply = super().evaluate(message, client)
            reply.content["tags"] = ConfigRecord({"client-id": f"site {client}"})
            return reply

    strategy = budgeted()
    run(strategy, Named(), rounds=1)
    assert {record["client"] for record in strategy.history} == {f"site {client}" for client in range(6)}
