"""The Flower strategy on a grid of pretended nodes."""

from __future__ import annotations

import itertools
import logging
import random
import re

import numpy as np
import pytest
from flower_nodes import COSTS_J, NAMES, TRAINED_WEIGHT, Nodes, note_selections, run, selector, weight
from flwr.app import ConfigRecord
from flwr.serverapp.strategy import FedAvg
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from bippo_rllib import Reward
from bippo_rllib.federated.flower import BudgetedStrategy

BUDGET_J = 3.0
LEARN = [None, "accuracies", "effects"]

SOME_EXAMPLES = settings(max_examples=12, suppress_health_check=[HealthCheck.function_scoped_fixture], derandomize=True)

pytestmark = pytest.mark.usefixtures("in_a_flower_task")


def budgeted(strategy=None, budget_j=BUDGET_J, **settings):
    return BudgetedStrategy(strategy or FedAvg(), selector(), budget_j, **settings)


def test_a_round_is_trained_by_those_the_selector_picks_within_the_budget():
    nodes = Nodes()
    result = run(budgeted(), nodes)
    # All evaluate before the first round and after each; in between the selected ones train.
    assert [kind for kind, _, _ in nodes.calls] == ["evaluate", *["train", "evaluate"] * 3]
    selected = [count for kind, count, _ in nodes.calls if kind == "train"]
    assert selected == [metrics["num-selected"] for metrics in result.train_metrics_clientapp.values()]
    spent = sum(metrics["energy-j"] for metrics in result.train_metrics_clientapp.values())
    assert spent == sum(COSTS_J[client] for client in nodes.trained())
    assert all(0 < metrics["energy-j"] <= BUDGET_J for metrics in result.train_metrics_clientapp.values())


def test_the_log_says_who_trains(caplog):
    nodes = Nodes()
    with caplog.at_level(logging.INFO, "flwr"):
        run(budgeted(budget_j=1.0), nodes, rounds=1)
    (trained,) = nodes.trained()
    assert f"configure_train: selected 1 of 6 clients: {NAMES[trained]} (1 J)" in caplog.text


def reports_at(accuracy):
    return {n: {"accuracy": accuracy, "num_samples": 10, "cost_j": c} for n, c in zip(NAMES, COSTS_J, strict=True)}


@pytest.mark.parametrize(("learn", "reward"), [("accuracies", "accuracy_change"), ("effects", "leave_one_out")])
def test_the_selector_learns_as_if_it_was_updated_by_hand(learn, reward):
    by_hand, inside = (selector(prior="accuracy", reward=Reward(reward)) for _ in range(2))
    result = run(BudgetedStrategy(FedAvg(), inside, BUDGET_J, learn=learn), Nodes(), rounds=4)
    mean, untrained = 0.25, by_hand.scores(reports_at(0.25), BUDGET_J)
    for server_round in range(1, 5):
        chosen = by_hand.select(reports_at(mean), BUDGET_J)
        own = {name: TRAINED_WEIGHT[NAMES.index(name)] for name in chosen}
        before, mean = mean, float(np.mean(list(own.values())))
        if learn == "accuracies":
            by_hand.update(chosen, dict.fromkeys(NAMES, mean))
        else:  # of a single participant, the effect is that on the model before
            others = {n: [w for o, w in own.items() if o != n] or [before] for n in chosen}
            by_hand.update(chosen, effects={n: mean - float(np.mean(o)) for n, o in others.items()})
        assert result.evaluate_metrics_clientapp[server_round]["accuracy"] == pytest.approx(mean)
    learned = by_hand.scores(reports_at(0.25), BUDGET_J)
    assert inside.scores(reports_at(0.25), BUDGET_J) == pytest.approx(learned) and learned != untrained


class FailingTrainings(Nodes):
    """Other clients fail in each round; ``counted`` has those that did not."""

    def __init__(self, rounds):
        super().__init__()
        self.rounds, self.counted = iter(rounds), []

    def send_and_receive(self, messages, timeout=None):
        messages = list(messages)
        if messages[0].metadata.message_type == "train":
            self.failing = next(self.rounds)
            clients = {message.metadata.dst_node_id - 100 for message in messages}
            self.counted.append({NAMES[client] for client in clients - self.failing})
        return super().send_and_receive(messages, timeout)


@pytest.mark.parametrize("learn", LEARN)
def test_policies_see_whose_training_counted_in_the_last_round(learn, monkeypatch):
    """Also where nothing is learned."""
    nodes = FailingTrainings([{0, 1}, {2}, set(range(6)), {3, 4}, set()])
    strategy = budgeted(None, 9.0, learn=learn)
    seen = note_selections(strategy, monkeypatch)
    run(strategy, nodes, rounds=5)
    trained = [{client for client, report in reports.items() if report.trained} for reports in seen[1:]]
    assert trained == nodes.counted[:-1] and [len(clients) for clients in trained] == [4, 5, 0, 4]


@pytest.mark.parametrize("learn", LEARN)
def test_what_start_is_given_reaches_every_evaluation(learn):
    given_config = ConfigRecord({"batch-size": 8})
    nodes = Nodes()
    run(budgeted(learn=learn), nodes, timeout=7.0, evaluate_config=given_config)
    assert len(nodes.configs) == nodes.evaluations >= 4 and {timeout for _, _, timeout in nodes.calls} == {7.0}
    assert [config["batch-size"] for config in nodes.configs] == [8] * len(nodes.configs)
    # A node may read it late, so that no evaluation writes into the config of another.
    assert len({id(config) for config in nodes.configs}) == len(nodes.configs)
    assert dict(given_config) == {"batch-size": 8}
    assert sorted({config["server-round"] for config in nodes.configs}) == [0, 1, 2, 3]


def test_a_second_start_begins_afresh():
    strategy, nodes = budgeted(), Nodes()
    run(strategy, nodes)
    calls = list(nodes.calls)
    nodes.get_node_ids = lambda: [103, 104, 105]
    nodes.calls.clear(), nodes.sent.clear()
    run(strategy, nodes, start=0.9)
    assert [kind for kind, *_ in nodes.calls] == [kind for kind, *_ in calls]
    assert set(nodes.trained()) <= {3, 4, 5}


@SOME_EXAMPLES
@given(lost=st.frozensets(st.integers(0, 12)), learn=st.sampled_from(LEARN))
def test_evaluations_that_nobody_answers_cost_no_model(lost, learn):
    """Whichever of a run's evaluations are lost: it ends, and the model is the mean of those that trained last."""
    nodes = Nodes(lost)
    result = run(budgeted(learn=learn), nodes, rounds=4)
    assert len(result.train_metrics_clientapp) == 4
    counts = [metrics["num-selected"] for metrics in result.train_metrics_clientapp.values()]
    assert sum(counts) == len(nodes.trained())
    last = next((count for count in reversed(counts) if count), 0)
    expected = np.mean([TRAINED_WEIGHT[client] for client in nodes.trained()[-last:]]) if last else 0.25
    assert weight(result.arrays) == pytest.approx(expected)
    if not {0, 1} <= lost:  # once anybody answered, its report is used again
        assert all(counts[1:])


@pytest.mark.parametrize("learn", ["accuracies", "effects"])
@pytest.mark.parametrize("lost", [{1}, {2, 3}, {2}])
def test_what_nobody_measured_is_not_learned_from(learn, lost):
    """Evaluation 1 is that of the round, 2 and 3 are those without one of two participants."""
    strategy = budgeted(learn=learn)
    result = run(strategy, Nodes(lost), rounds=1)
    assert result.train_metrics_clientapp[1]["num-selected"] == 2
    measured = int(np.isfinite(strategy.selector._parts.last.rewards).sum())
    assert measured == (0 if 1 in lost else 2 if learn == "accuracies" else 2 - len(lost))


class Half(FedAvg):
    def configure_train(self, *args):
        return list(super().configure_train(*args))[:3]


@pytest.mark.parametrize(
    ("settings", "given", "texts"),
    [
        ({}, {"lost": {0, 2}}, ["no evaluation after round 0 .*node 100 failed", "no evaluation after round 2"]),
        ({}, {"lost": {0}}, ["round 1 trains no client: no client is available"]),
        ({}, {"silent": set(range(6)) - {4}}, ["node 100: gone"]),
        ({}, {"failing": set(range(6))}, ["round 2 made no model: 0 of 2 clients trained", "no round made a model"]),
        ({"budget_j": 0.5}, {}, ["round 2 trains no client: .* 0.5 J .* 1 J of 'client_000'", "no round made a model"]),
        ({"budget_j": 0.0}, {}, ["round 1 trains no client: .* 0 J .* 1 J of 'client_000'"]),
        ({"strategy": Half(), "budget_j": 9.0}, {}, ["round 2: Half sends nothing to .'client_00"]),
        ({"batteries_j": dict.fromkeys(NAMES, 0.5)}, {}, ["round 1 trains no client: none of 6 .*battery"]),
    ],
)
def test_what_costs_a_round_something_is_warned_of(settings, given, texts, caplog):
    nodes = Nodes()
    vars(nodes).update(given)
    result = run(budgeted(**settings), nodes, rounds=2)
    for text in texts:
        assert re.search(text, caplog.text), text
    assert set(nodes.trained()) <= set(range(6)) - nodes.silent
    no_model = "no round made a model" in texts or ("budget_j" in settings and not nodes.trained())
    assert (weight(result.arrays) == 0.25) == (no_model or "batteries_j" in settings)
    if "strategy" in settings:
        assert [metrics["num-selected"] for metrics in result.train_metrics_clientapp.values()] == [3, 3]


@SOME_EXAMPLES
@given(looks=st.lists(st.frozensets(st.integers(0, 5), min_size=4), min_size=40, max_size=40), seed=st.integers(0, 99))
def test_nodes_that_join_or_leave_between_two_looks_take_nobodys_place(looks, seed, caplog):
    """Each node that is there when a round begins, and is selected, is sent the training; no other is waited for."""
    random.seed(seed)
    nodes, look = Nodes(), itertools.cycle(looks)
    nodes.get_node_ids = lambda: [100 + client for client in next(look)]
    result = run(budgeted(), nodes, rounds=4)
    assert all(metrics["num-selected"] for metrics in result.train_metrics_clientapp.values())
    assert "sends nothing to" not in caplog.text


@pytest.mark.parametrize(
    ("selected", "settings", "message"),
    [
        ({}, {"learn": "all"}, "learn is 'all'; .*'accuracies', 'effects' or None"),
        ({}, {"budget_j": -1.0}, r"budget_j is -1.0; .*math.inf"),
        ({}, {"budget_j": float("nan")}, "budget_j is nan"),
        ({"size": 3}, {}, "accuracy, loss, samples and cost; the selector needs more"),
        ({"reward": None}, {"learn": "accuracies"}, "the reward .*learn=None"),
        ({"reward": None}, {"learn": "effects"}, "the reward .*learn=None"),
    ],
)
def test_what_cannot_work_is_refused(selected, settings, message):
    with pytest.raises(ValueError, match=message):
        BudgetedStrategy(FedAvg(), selector(**selected), **{"budget_j": BUDGET_J} | settings)


def test_a_round_without_reports_leaves_what_the_selector_is_to_learn_from():
    """As where a run is resumed, and the first evaluation is lost."""
    strategy = budgeted(learn="accuracies")
    run(strategy, Nodes(), rounds=1)
    last = strategy.selector._parts.last
    assert np.isfinite(last.rewards).sum() == 2
    run(strategy, Nodes({0, 1}), rounds=1)
    assert strategy.selector._parts.last is last and np.isfinite(last.rewards).sum() == 2


def test_a_node_that_went_offline_after_its_evaluation_is_left_out():
    nodes = Nodes()
    nodes.get_node_ids = lambda: [100, 101] if nodes.evaluations == 2 else Nodes.get_node_ids(nodes)
    result = run(budgeted(budget_j=9.0), nodes, rounds=2)
    assert [metrics["num-selected"] for metrics in result.train_metrics_clientapp.values()] == [6, 2]
    assert [metrics["energy-j"] for metrics in result.train_metrics_clientapp.values()] == [9.0, 3.0]


def test_where_all_nodes_restart_under_other_ids_they_are_asked_before_the_round():
    nodes = Nodes()
    nodes.get_node_ids = lambda: [100 + client + (6 if nodes.evaluations > 1 else 0) for client in range(6)]
    nodes.evaluate = lambda message, client: Nodes.evaluate(nodes, message, client % 6)
    nodes.train = lambda message, client: Nodes.train(nodes, message, client % 6)
    result = run(budgeted(), nodes, rounds=2)
    assert [kind for kind, *_ in nodes.calls] == ["evaluate", "train", "evaluate", "evaluate", "train", "evaluate"]
    assert [metrics["num-selected"] for metrics in result.train_metrics_clientapp.values()] == [2, 2]
