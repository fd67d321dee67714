"""The Flower strategy on a grid of pretended nodes, and the example app in Flower's own simulation."""

from __future__ import annotations

import itertools
import random

import numpy as np
import pytest
from flower_nodes import COSTS_J, NAMES, TRAINED_WEIGHT, Nodes, run, selector, weight
from flower_superlink import flwr_run, superlink
from flwr.app import ConfigRecord
from flwr.serverapp.strategy import FedAvg
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from quick_federation import TINY
from source_tree import ROOT

import envs
from bippo_rllib import ClientSelector
from bippo_rllib.federated.flower import BudgetedStrategy
from experiments.methods import METHODS

BUDGET_J = 3.0
LEARN = [None, "accuracies", "effects"]

SOME_EXAMPLES = settings(
    max_examples=12, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture], derandomize=True
)

pytestmark = pytest.mark.usefixtures("in_a_flower_task")


def budgeted(strategy=None, budget_j=BUDGET_J, **settings):
    return BudgetedStrategy(strategy or FedAvg(), selector(), budget_j, **settings)


@pytest.fixture(scope="module")
def checkpoint(ray_session, tmp_path_factory):
    keywords = METHODS["bippo-r"].with_requirements({**TINY, "num_clients": 6})
    config = METHODS["bippo-r"].make_config().environment(envs.parallel_env, env_config=keywords)
    algo = config.debugging(seed=7, log_level="ERROR").build_algo()
    path = algo.save_to_path(tmp_path_factory.mktemp("selector"))
    algo.stop()
    return path


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


def test_a_node_that_does_not_reply_is_not_selected():
    nodes = Nodes()
    nodes.silent = {0, 1, 2, 3}
    run(budgeted(), nodes)
    assert set(nodes.trained()) == {4, 5}


@pytest.mark.parametrize("learn", ["accuracies", "effects"])
def test_the_selector_learns_as_if_it_was_told_by_hand(checkpoint, learn):
    by_hand = ClientSelector.load(checkpoint)
    strategy = BudgetedStrategy(FedAvg(), ClientSelector.load(checkpoint), BUDGET_J, learn=learn)
    result = run(strategy, Nodes(), rounds=4)
    mean = 0.25
    for server_round in range(1, 5):
        reports = {n: {"accuracy": mean, "num_samples": 10, "cost_j": c} for n, c in zip(NAMES, COSTS_J, strict=True)}
        chosen = by_hand.select(reports, BUDGET_J)
        own = {name: TRAINED_WEIGHT[NAMES.index(name)] for name in chosen}
        before, mean = mean, float(np.mean(list(own.values())))
        if learn == "accuracies":
            by_hand.update(chosen, dict.fromkeys(NAMES, mean))
        else:  # alone, a client is worth what the model was before
            others = {n: [w for o, w in own.items() if o != n] or [before] for n in chosen}
            by_hand.update(chosen, effects={n: mean - float(np.mean(o)) for n, o in others.items()})
        assert result.evaluate_metrics_clientapp[server_round]["accuracy"] == pytest.approx(mean)
    assert strategy.selector.suggestions(reports, BUDGET_J) == pytest.approx(by_hand.suggestions(reports, BUDGET_J))


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
    nodes, strategy, seen = (
        FailingTrainings([{0, 1}, {2}, set(range(6)), {3, 4}, set()]),
        budgeted(None, 9.0, learn=learn),
        [],
    )
    select = strategy.selector.select

    def noting(reports, budget_j):
        seen.append({client for client, report in reports.items() if report.trained})
        return select(reports, budget_j)

    monkeypatch.setattr(strategy.selector, "select", noting)
    run(strategy, nodes, rounds=5)
    assert seen[1:] == nodes.counted[:-1] and [len(clients) for clients in seen[1:]] == [4, 5, 0, 4]


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


def test_a_lost_evaluation_is_warned_of(caplog):
    run(budgeted(), Nodes({0, 2}), rounds=2)
    assert "no evaluation after round 0 can be used (node 100 failed: no network;" in caplog.text
    assert "round 1 trains no client: no client is available; the model stays as it was" in caplog.text
    assert "no evaluation after round 2 can be used" in caplog.text


@pytest.mark.parametrize("learn", ["accuracies", "effects"])
@pytest.mark.parametrize("lost", [{1}, {2, 3}, {2}])
def test_what_nobody_measured_is_not_learned_from(learn, lost):
    """Evaluation 1 is that of the round, 2 and 3 are those without one of two participants."""
    strategy = budgeted(learn=learn)
    result = run(strategy, Nodes(lost), rounds=1)
    assert result.train_metrics_clientapp[1]["num-selected"] == 2
    measured = int(np.isfinite(strategy.selector._parts.last.rewards).sum())
    assert measured == (0 if 1 in lost else 2 if learn == "accuracies" else 2 - len(lost))


@pytest.mark.parametrize(("budget_j", "text"), [(0.5, "0.5 J"), (0.0, "0 J")])
def test_a_budget_below_all_clients_is_warned_of_and_the_model_stays(budget_j, text, caplog):
    result = run(budgeted(budget_j=budget_j), Nodes(), rounds=2)
    assert weight(result.arrays) == 0.25
    reason = f"the budget of {text} is below the cheapest client's cost, 1 J of 'client_000'"
    for server_round in (1, 2):
        assert f"round {server_round} trains no client: {reason}; the model stays as it was" in caplog.text
    assert "no round made a model; result.arrays is the initial one" in caplog.text


def test_a_run_in_which_all_trainings_fail_keeps_the_initial_model(caplog):
    nodes = Nodes()
    nodes.failing = set(range(6))
    result = run(budgeted(), nodes, rounds=2)
    assert weight(result.arrays) == 0.25 and result.train_metrics_clientapp[2]["energy-j"] > 0
    assert "round 2 made no model: 0 of 2 clients trained; the model stays as it was" in caplog.text


@SOME_EXAMPLES
@given(looks=st.lists(st.frozensets(st.integers(0, 5), min_size=4), min_size=40, max_size=40), seed=st.integers(0, 99))
def test_nodes_that_join_or_leave_between_two_looks_take_nobodys_place(looks, seed, caplog):
    """Whoever is there when a round begins, and is selected, is sent the training; nobody waits for the others."""
    random.seed(seed)
    nodes, look = Nodes(), itertools.cycle(looks)
    nodes.get_node_ids = lambda: [100 + client for client in next(look)]
    result = run(budgeted(), nodes, rounds=4)
    assert all(metrics["num-selected"] for metrics in result.train_metrics_clientapp.values())
    assert "sends nothing to" not in caplog.text


def test_a_strategy_that_leaves_out_a_selected_client_is_warned_of(caplog):
    class Half(FedAvg):
        def configure_train(self, *args):
            return list(super().configure_train(*args))[:3]

    result = run(budgeted(Half(), budget_j=9.0), Nodes(), rounds=2)
    assert [metrics["num-selected"] for metrics in result.train_metrics_clientapp.values()] == [3, 3]
    assert "round 2: Half sends nothing to ['client_00" in caplog.text


def test_what_cannot_work_is_said_in_one_line():
    with pytest.raises(ValueError, match="learn is 'all'; choose 'auto', 'accuracies', 'effects' or None"):
        budgeted(learn="all")
    for budget_j in (-1.0, float("nan")):
        with pytest.raises(ValueError, match=rf"budget_j is {budget_j}; it must be at least 0 \(math.inf for no limit"):
            budgeted(budget_j=budget_j)
    with pytest.raises(ValueError, match=r"nodes report accuracy, loss, samples and cost; the selector needs more: .*"):
        BudgetedStrategy(FedAvg(), selector(size=3), BUDGET_J)
    for learn in ("accuracies", "effects"):
        with pytest.raises(
            ValueError, match=r"does not know the reward that it was trained on.*; choose learn=None, or"
        ):
            BudgetedStrategy(FedAvg(), selector(reward=None), BUDGET_J, learn=learn)


def test_a_round_without_reports_leaves_what_the_selector_is_to_learn_from():
    """As where a run is resumed, and the first evaluation is lost."""
    strategy = budgeted(learn="accuracies")
    run(strategy, Nodes(), rounds=1)
    last = strategy.selector._parts.last
    assert np.isfinite(last.rewards).sum() == 2
    run(strategy, Nodes({0, 1}), rounds=1)
    assert strategy.selector._parts.last is last and np.isfinite(last.rewards).sum() == 2


@pytest.mark.ray
@pytest.mark.slow
def test_the_example_runs_in_flowers_own_simulation(ray_session, ray_address, tmp_path):
    config = METHODS["fedavg"].make_config().environment(envs.parallel_env)
    config.debugging(seed=7, log_level="ERROR").build_algo().save_to_path(tmp_path / "checkpoint")
    settings = f'selector="{tmp_path / "checkpoint"}" learn="effects" rounds=2'
    with superlink(tmp_path, ray_address) as environment:
        printed = flwr_run(ROOT / "docs/examples/flower", environment, 20, settings)
    assert "mean accuracy 0." in printed, printed


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
