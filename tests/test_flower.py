"""The Flower strategy on a grid of pretended nodes, and the example app in Flower's own simulation."""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from flwr.app import Array, ArrayRecord, ConfigRecord, Error, Message, MetricRecord, RecordDict
from flwr.serverapp.strategy import FedAvg
from flwr.supercore.task_identity import TaskIdentity
from free_port import free_port
from quick_federation import TINY
from source_tree import ROOT

import envs
from bippo_rllib import ClientSelector
from bippo_rllib.flower import BudgetedStrategy
from experiments.methods import METHODS

COSTS_J = [1.0, 2.0, 1.0, 2.0, 1.0, 2.0]
BUDGET_J = 3.0
#: What each node's training makes of the one weight; accuracy is the weight, cut to [0, 1].
TRAINED_WEIGHT = [0.1, 0.9, 0.3, 0.5, 0.7, 0.2]


@pytest.fixture(autouse=True)
def in_a_task(monkeypatch):
    """Flower makes messages in a process that knows its run only."""
    for name in ("run_id", "node_id", "task_id"):
        monkeypatch.setattr(TaskIdentity, f"_{name}", 1)


class Nodes:
    """A grid of six nodes with the ids 100 to 105, of which some fail."""

    def __init__(self, costs=True):
        self.sent, self.silent, self.costs = [], set(), costs

    def get_node_ids(self):
        return [100 + client for client in range(6)]

    def send_and_receive(self, messages, timeout=None):
        return [self.reply(message) for message in messages]

    def reply(self, message):
        client = message.metadata.dst_node_id - 100
        self.sent.append((message.metadata.message_type, client))
        if client in self.silent:
            return Message(Error(code=0, reason="gone"), reply_to=message)
        weight = float(message.content["arrays"]["w"].numpy()[0])
        if message.metadata.message_type == "train":
            return Message(
                RecordDict({"a": weights(TRAINED_WEIGHT[client]), "m": MetricRecord({"num-examples": 10})}),
                reply_to=message,
            )
        metrics = {
            "accuracy": min(1.0, max(0.0, weight)),
            "num-train-examples": 10,
            "num-examples": 5,
            "client-id": client,
        }
        metrics |= {"cost-j": COSTS_J[client]} if self.costs else {}
        return Message(RecordDict({"m": MetricRecord(metrics)}), reply_to=message)


def weights(value):
    return ArrayRecord({"w": Array(np.array([value]))})


@pytest.fixture(scope="module")
def checkpoint(ray_session, tmp_path_factory):
    keywords = METHODS["bippo-r"].with_requirements({**TINY, "num_clients": 6})
    config = METHODS["bippo-r"].make_config().environment(envs.parallel_env, env_config=keywords)
    algo = config.debugging(seed=7, log_level="ERROR").build_algo()
    path = algo.save_to_path(tmp_path_factory.mktemp("selector"))
    algo.stop()
    return path


def run(strategy, nodes, rounds=3):
    return strategy.start(nodes, weights(0.25), num_rounds=rounds)


def test_a_round_is_trained_by_those_the_selector_picks_within_the_budget(checkpoint):
    nodes, strategy = Nodes(), BudgetedStrategy(FedAvg(), ClientSelector.load(checkpoint), BUDGET_J)
    result = run(strategy, nodes)
    # All evaluate before the first round and after each; in between the selected ones train.
    kinds = [kind for kind, _ in nodes.sent]
    trained = []
    while kinds:
        assert kinds[:6] == ["evaluate"] * 6
        count = next((i for i, kind in enumerate(kinds[6:]) if kind != "train"), len(kinds) - 6)
        trained, kinds = [*trained, count], kinds[6 + count :]
    assert trained[-1] == 0 and trained[:-1] == [m["num-selected"] for m in result.train_metrics_clientapp.values()]
    spent = sum(metrics["energy-j"] for metrics in result.train_metrics_clientapp.values())
    assert spent == sum(COSTS_J[client] for kind, client in nodes.sent if kind == "train")
    assert all(0 < metrics["energy-j"] <= BUDGET_J for metrics in result.train_metrics_clientapp.values())


def test_a_node_that_does_not_reply_is_not_selected(checkpoint):
    nodes = Nodes()
    nodes.silent = {0, 1, 2, 3}
    run(BudgetedStrategy(FedAvg(), ClientSelector.load(checkpoint), BUDGET_J), nodes)
    assert {client for kind, client in nodes.sent if kind == "train"} == {4, 5}


@pytest.mark.parametrize("learn", ["accuracies", "effects"])
def test_the_selector_learns_as_if_it_was_told_by_hand(checkpoint, learn):
    by_hand = ClientSelector.load(checkpoint)
    strategy = BudgetedStrategy(FedAvg(), ClientSelector.load(checkpoint), BUDGET_J, learn=learn)
    result = run(strategy, Nodes(), rounds=4)
    weight, names = 0.25, [f"client_{client:03d}" for client in range(6)]
    for server_round in range(1, 5):
        reports = {n: {"accuracy": weight, "samples": 10, "cost": c} for n, c in zip(names, COSTS_J, strict=True)}
        chosen = by_hand.select(reports, BUDGET_J)
        own = {name: TRAINED_WEIGHT[names.index(name)] for name in chosen}
        before, weight = weight, float(np.mean(list(own.values())))
        if learn == "accuracies":
            by_hand.report(chosen, dict.fromkeys(names, weight))
        else:  # alone, a client is worth what the model was before
            others = {n: [w for o, w in own.items() if o != n] or [before] for n in chosen}
            by_hand.report(chosen, effects={n: weight - float(np.mean(o)) for n, o in others.items()})
        assert result.evaluate_metrics_clientapp[server_round]["accuracy"] == pytest.approx(weight)
    assert strategy.selector.suggestions(reports, BUDGET_J) == pytest.approx(by_hand.suggestions(reports, BUDGET_J))


def test_what_cannot_work_is_said_in_one_line(checkpoint):
    chooser = ClientSelector.load(checkpoint)
    with pytest.raises(ValueError, match="learn is 'all'; choose 'accuracies', 'effects' or None"):
        BudgetedStrategy(FedAvg(), chooser, BUDGET_J, learn="all")
    with pytest.raises(ValueError, match=r"FedAvg leaves out \[.*\]; give it fraction_train=1.0"):
        run(BudgetedStrategy(FedAvg(fraction_train=0.0), chooser, BUDGET_J), Nodes())
    with pytest.raises(
        ValueError, match=r"node 10\d replied to the evaluation without cost-j; its MetricRecord has acc"
    ):
        run(BudgetedStrategy(FedAvg(), chooser, BUDGET_J), Nodes(costs=False))
    nodes = Nodes()
    nodes.silent = set(range(6))
    with pytest.raises(ValueError, match="no node replied to the evaluation"):
        run(BudgetedStrategy(FedAvg(), chooser, BUDGET_J), nodes)


@pytest.fixture
def flower_home(tmp_path, ray_address):
    """Flower's configuration with a SuperLink of this test's own, which ``flwr run`` would leave running."""
    control, http = free_port(), free_port()
    (tmp_path / "config.toml").write_text(f'[superlink.mine]\naddress = "127.0.0.1:{http}"\ninsecure = true\n')
    addresses = ["--control-api-address", f"127.0.0.1:{control}", "--host", "127.0.0.1", "--port", str(http)]
    environment = {**os.environ, "FLWR_HOME": str(tmp_path), "PYTHONPATH": str(ROOT), "RAY_ADDRESS": ray_address}
    command = [executable("flower-superlink"), "--insecure", "--simulation", "--isolation", "subprocess", *addresses]
    with subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as superlink:
        wait_for(http)
        yield environment
        superlink.terminate()


def executable(name):
    return Path(sys.executable).with_name(name)


def wait_for(port):
    for _ in range(600):
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
            return
        time.sleep(0.1)
    raise TimeoutError("flower-superlink did not start")


@pytest.mark.ray
@pytest.mark.slow
def test_the_example_runs_in_flowers_own_simulation(ray_session, flower_home, tmp_path):
    config = METHODS["fedavg"].make_config().environment(envs.parallel_env)
    config.debugging(seed=7, log_level="ERROR").build_algo().save_to_path(tmp_path / "checkpoint")
    settings = f'selector="{tmp_path / "checkpoint"}" rounds=2'
    command = [executable("flwr"), "run", ".", "mine", "--stream", "--run-config", settings]
    done = subprocess.run(
        [*command, "--federation-config", "num-supernodes=20"],
        cwd=ROOT / "docs/examples/flower",
        env=flower_home,
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert "mean accuracy 0." in done.stdout, done.stdout + done.stderr


def test_a_node_that_goes_offline_after_its_selection_is_left_out(checkpoint):
    nodes, strategy = Nodes(), BudgetedStrategy(FedAvg(), ClientSelector.load(checkpoint), BUDGET_J)
    run(strategy, nodes, rounds=1)
    nodes.sent.clear()
    nodes.get_node_ids = lambda: [100, 101]
    arrays = weights(0.25)
    sent = [
        m.metadata.dst_node_id for m in strategy.configure_train(2, arrays, ConfigRecord({"server-round": 2}), nodes)
    ]
    assert set(sent) <= {100, 101}
    _, metrics = strategy.aggregate_train(2, [])
    assert metrics["energy-j"] == sum(COSTS_J[node - 100] for node in sent) and metrics["num-selected"] == len(sent)


def test_two_nodes_of_the_same_name_are_refused(checkpoint):
    strategy = BudgetedStrategy(
        FedAvg(), ClientSelector.load(checkpoint), BUDGET_J, client_of=lambda node_id, metrics: "same"
    )
    with pytest.raises(ValueError, match=r"nodes 10\d and 10\d both reply as 'same'; give each its own"):
        run(strategy, Nodes())
