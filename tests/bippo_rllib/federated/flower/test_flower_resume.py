"""A run in the Flower strategy that is killed, loaded and goes on."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest
from flower_nodes import NAMES, Nodes, run, selector, weight
from flwr.app import Array, ArrayRecord
from flwr.serverapp import strategy as fl

from bippo_rllib import ClientSelector, Reward
from bippo_rllib.federated.flower import BudgetedStrategy
from bippo_rllib.selection.update_matching import UpdateMatching

ROUNDS = 3
STRATEGIES = {
    "FedAvg": fl.FedAvg,
    "matching": fl.FedAvg,
    "FedAdam": fl.FedAdam,
    "FedAvgM": lambda: fl.FedAvgM(server_momentum=0.9),
    "clipping": lambda: fl.DifferentialPrivacyServerSideAdaptiveClipping(fl.FedAvg(), 0.0, 6, clipped_count_stddev=0.0),
}
REPORTS = {name: {"accuracy": 0.4, "num_samples": 10, "cost_j": 1.0} for name in NAMES}

pytestmark = pytest.mark.usefixtures("in_a_flower_task")


class Killed(BaseException):
    """As a signal, it is no error that anything catches."""


class MortalNodes(Nodes):
    """The server is killed at a call. Costs change from round to round; trained models depend on the model before."""

    def __init__(self, kill_at=None):
        super().__init__()
        self.kill_at = kill_at

    def send_and_receive(self, messages, timeout=None):
        if len(self.calls) == self.kill_at:
            raise Killed
        return super().send_and_receive(messages, timeout)

    def evaluate(self, message, client):
        self.odd = {client: {"cost-j": 1.0 + (client + message.content["config"]["server-round"]) % 3}}
        return super().evaluate(message, client)

    def train(self, message, client):
        reply = super().train(message, client)
        moved = (message.content["arrays"]["w"].numpy() + reply.content["a"]["w"].numpy()) / 2
        reply.content["a"] = ArrayRecord({"w": Array(moved)})
        reply.content["m"]["norm_bit"] = client % 2
        return reply


def budgeted(folder, name="FedAvg", **settings):
    files = {"history_path": folder / "history.jsonl", "checkpoint_path": folder / "run.safetensors"}
    batteries_j = dict.fromkeys(NAMES[:3], 6.0)
    matching = UpdateMatching() if name == "matching" else None
    chosen = selector(reward=Reward("shapley" if matching else "accuracy_change"), matching=matching)
    return BudgetedStrategy(STRATEGIES[name](), chosen, 5.0, batteries_j=batteries_j, **files | settings)


def outcome(strategy, nodes):
    result = run(strategy, nodes, rounds=ROUNDS)
    return {
        "model": weight(result.arrays),
        "batteries": strategy.batteries_j,
        "history": list(strategy.history),
        "file": strategy.history.path.read_text(),
        "selector": strategy.selector.scores(REPORTS, 5.0),
    }


@pytest.mark.parametrize(
    ("name", "learn"),
    [
        ("FedAvg", "effects"),
        ("FedAvgM", None),
        ("FedAdam", "effects"),
        ("clipping", "accuracies"),
        ("matching", "auto"),
    ],
)
def test_wherever_a_run_is_killed_it_goes_on_as_if_it_had_not_been(tmp_path, name, learn):
    nodes, resumed_after = MortalNodes(), set()
    whole = outcome(budgeted(tmp_path / "whole", name, learn=learn), nodes)
    assert len({record["accuracy"] for record in whole["history"]}) > ROUNDS
    for kill_at in range(len(nodes.calls)):
        folder = tmp_path / str(kill_at)
        with pytest.raises(Killed):
            run(budgeted(folder, name, learn=learn), MortalNodes(kill_at), rounds=ROUNDS)
        if not (folder / "run.safetensors").exists():  # no round was complete
            continue
        strategy = budgeted(folder, name, learn=learn)
        strategy.load(folder / "run.safetensors")
        resumed_after.add(strategy._checkpoints._loaded.state.last_round)
        assert outcome(strategy, MortalNodes()) == whole
    assert resumed_after == {1, 2}


@pytest.mark.parametrize("when", ["before", "while"])
def test_a_kill_while_a_round_is_saved_costs_that_round_only(tmp_path, monkeypatch, when):
    """The history has it already, which is cut off."""
    whole = outcome(budgeted(tmp_path / "whole"), MortalNodes())
    replace, saved = os.replace, []

    def killed(source, target):
        saved.append(str(target).endswith("run.safetensors"))
        if sum(saved) == 2:
            if when == "while":
                Path(source).write_bytes(b"half a fi")
            raise Killed
        replace(source, target)

    folder = tmp_path / "killed"
    with monkeypatch.context() as patch, pytest.raises(Killed):
        patch.setattr(os, "replace", killed)
        run(budgeted(folder), MortalNodes(), rounds=ROUNDS)
    assert len((folder / "history.jsonl").read_text().splitlines()) == 18
    strategy = budgeted(folder)
    strategy.load(folder / "run.safetensors")
    assert outcome(strategy, MortalNodes()) == whole


def test_a_result_counts_rounds_from_the_first_of_the_run_and_evaluates_the_saved_model_again(tmp_path):
    with pytest.raises(Killed):
        run(budgeted(tmp_path), MortalNodes(5), rounds=ROUNDS)
    strategy, evaluated = budgeted(tmp_path), []
    strategy.load(tmp_path / "run.safetensors")
    result = run(strategy, MortalNodes(), rounds=ROUNDS, evaluate_fn=lambda number, arrays: evaluated.append(number))
    assert list(result.train_metrics_clientapp) == list(result.evaluate_metrics_clientapp) == [3]
    assert evaluated == [2, 3]


def test_a_run_that_is_complete_trains_no_more_and_says_so(tmp_path, caplog):
    whole = outcome(budgeted(tmp_path), MortalNodes())
    strategy, nodes = budgeted(tmp_path), MortalNodes()
    strategy.load(tmp_path / "run.safetensors")
    assert outcome(strategy, nodes) == whole and nodes.calls == []
    assert f"{ROUNDS} rounds, and num_rounds is {ROUNDS}: none is left" in caplog.text


def test_a_run_is_saved_between_rounds_only(tmp_path):
    strategy = budgeted(tmp_path, checkpoint_path=None)
    with pytest.raises(ValueError, match="none is complete"):
        strategy.save(tmp_path / "a")

    def save(number, arrays):
        if number:
            strategy.save(tmp_path / "a")

    run(strategy, MortalNodes(), rounds=2, evaluate_fn=save)
    other = budgeted(tmp_path / "c", checkpoint_path=None)
    with pytest.raises(Killed):
        run(other, MortalNodes(3), rounds=2)
    with pytest.raises(ValueError, match="a round is going on"):
        other.save(tmp_path / "d")
    assert (tmp_path / "a").exists() and not (tmp_path / "d").exists()


def test_what_cannot_be_loaded_is_refused_in_one_line_and_changes_nothing(tmp_path):
    run(budgeted(tmp_path), MortalNodes(), rounds=1)
    path = tmp_path / "run.safetensors"
    (tmp_path / "cut").write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    (tmp_path / "text").write_text("{}")
    strategy = budgeted(tmp_path, history_path=None)
    before = strategy.selector
    for other, file, text in (
        (strategy, "none", "no saved run at"),
        (strategy, "cut", "is damaged: SafetensorError"),
        (strategy, "text", "is damaged"),
        (budgeted(tmp_path, "FedAdam"), path, r"\['FedAvg'\], and this run has \['FedAdam'\]"),
        (budgeted(tmp_path, history_path=tmp_path / "other.jsonl"), path, "another run's"),
        (
            BudgetedStrategy(fl.FedAvg(), ClientSelector.fresh("random"), 5.0),
            path,
            "strategy is 'odds' .*'random' here",
        ),
    ):
        with pytest.raises(ValueError, match=text) as raised:
            other.load(tmp_path / file)
        assert "\n" not in str(raised.value)
    assert strategy.selector is before
    strategy.load(path)
    with pytest.raises(ValueError, match=r"'w' has the shape \(1,\) there, and \(2,\) in initial_arrays"):
        strategy.start(MortalNodes(), ArrayRecord({"w": Array(np.zeros(2))}))


def test_an_accountant_would_forget_what_was_spent(tmp_path):
    wrapper = fl.DifferentialPrivacyServerSideFixedClipping(fl.FedAvg(), 1.0, 1.0, 6)
    wrapper.accountant = object()
    with pytest.raises(ValueError, match="has an accountant"):
        BudgetedStrategy(wrapper, selector(), 5.0, checkpoint_path=tmp_path / "run")


def test_a_custom_strategy_keeps_what_it_counts_and_is_warned_of_what_it_cannot(tmp_path, caplog):
    class Own(fl.FedAvg):
        def __init__(self):
            super().__init__()
            self.rounds, self.seen, self.net = 0, {"last": None}, {object()}

        def aggregate_train(self, server_round, replies):
            self.rounds += 1
            self.seen["last"] = np.float32(server_round)
            return super().aggregate_train(server_round, replies)

    run(BudgetedStrategy(Own(), selector(), 5.0, checkpoint_path=tmp_path / "run"), MortalNodes(), rounds=3)
    own = Own()
    BudgetedStrategy(own, selector(), 5.0).load(tmp_path / "run")
    assert (own.rounds, own.seen) == (3, {"last": np.float32(3.0)}) and type(own.seen["last"]) is np.float32
    assert caplog.text.count("not saved: Own.net (set)") == 1
