"""Selectors that no simulation has trained in the Flower strategy."""

from __future__ import annotations

import pytest
from flower_nodes import NAMES, Nodes, run
from flwr.serverapp.strategy import FedAvg

from bippo_rllib import ClientSelector
from bippo_rllib.federated.flower import BudgetedStrategy

METHODS = ["bippo-s", "bippo-r", "bippo", "ippo", "rep", "random", "cyclic", "oort", "poc", "poca"]

pytestmark = pytest.mark.usefixtures("in_a_flower_task")


class WithLoss(Nodes):
    def evaluate(self, message, client):
        weight = float(message.content["arrays"]["w"].numpy()[0])
        self.odd = {client: {"loss": 2.0 - weight + 0.1 * client}}
        return super().evaluate(message, client)


def outcome(method, folder, kill_after=None, rounds=4):
    strategy = BudgetedStrategy(
        FedAvg(),
        ClientSelector.fresh(method, seed=3),
        4.0,
        checkpoint_path=folder / method,
        batteries_j={NAMES[0]: 2.0},
    )
    if (folder / method).exists():
        strategy.load(folder / method)
    run(strategy, WithLoss(), rounds=kill_after or rounds)
    return strategy


@pytest.mark.parametrize("method", METHODS)
def test_a_fresh_selector_runs_learns_and_goes_on_after_a_restart(method, tmp_path):
    (tmp_path / "whole").mkdir(), (tmp_path / "killed").mkdir()
    strategy = outcome(method, tmp_path / "whole")
    history = list(strategy.history)
    by_round = {number: [r for r in history if r["round"] == number and r["selected"]] for number in range(1, 5)}
    assert all(0 < sum(record["cost_j"] for record in rows) <= 4.0 for rows in by_round.values())
    assert any(record["effect"] is not None for record in history) == (method in ("bippo-s", "bippo-r"))
    assert sum(record["selected"] for record in history if record["client"] == NAMES[0]) <= 2
    outcome(method, tmp_path / "killed", kill_after=2)
    resumed = list(outcome(method, tmp_path / "killed").history)
    assert resumed == [record for record in history if record["round"] > 2]


@pytest.mark.parametrize("method", ["oort", "poc"])
def test_a_method_that_ranks_by_loss_needs_it_of_every_node(method, caplog):
    with pytest.raises(ValueError, match="no reply to the first evaluation can be used: node 100 replied without loss"):
        run(BudgetedStrategy(FedAvg(), ClientSelector.fresh(method, seed=3), 4.0), Nodes())
