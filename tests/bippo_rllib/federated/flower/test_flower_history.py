"""The records of a run in the Flower strategy."""

from __future__ import annotations

import json

import pandas as pd
import pytest
from flower_nodes import COSTS_J, NAMES, TRAINED_WEIGHT, Nodes, run, selector
from flwr.serverapp.strategy import FedAvg

from bippo_rllib.federated.flower import BudgetedStrategy
from bippo_rllib.federated.flower.history import FIELDS

pytestmark = pytest.mark.usefixtures("in_a_flower_task")


def budgeted(**settings):
    return BudgetedStrategy(FedAvg(), selector(), 3.0, **settings)


@pytest.mark.parametrize("learn", [None, "effects"])
def test_history_is_what_happened(learn):
    strategy, nodes = budgeted(learn=learn), Nodes()
    nodes.failing = {1}
    result = run(strategy, nodes, rounds=4)
    assert [(record["round"], record["client"]) for record in strategy.history] == [
        (server_round, name) for server_round in range(5) for name in NAMES
    ]
    assert {record["cost_j"] for record in strategy.history if record["client"] == NAMES[1]} == {COSTS_J[1]}
    for server_round in range(1, 5):
        rows = [record for record in strategy.history if record["round"] == server_round]
        metrics = result.train_metrics_clientapp[server_round]
        assert sum(row["selected"] for row in rows) == metrics["num-selected"]
        assert sum(row["cost_j"] for row in rows if row["selected"]) == metrics["energy-j"] <= 3.0
        trained = {row["client"] for row in rows if row["trained"]}
        assert trained == {row["client"] for row in rows if row["selected"]} - {NAMES[1]}
        if trained:
            weights = [TRAINED_WEIGHT[NAMES.index(client)] for client in sorted(trained)]
            assert [row["accuracy"] for row in rows] == pytest.approx([sum(weights) / len(weights)] * 6)
        assert {row["client"] for row in rows if row["effect"] is not None} == (trained if learn else set())
        assert all(0 < row["score"] < 1 for row in rows)
    assert all(row["score"] is None and not row["selected"] for row in strategy.history[:6])


def test_a_client_that_did_not_evaluate_has_no_accuracy():
    nodes = Nodes(lost={2})
    strategy = budgeted()
    run(strategy, nodes, rounds=3)
    lost = {record["round"] for record in strategy.history if record["accuracy"] is None}
    assert lost == {2}


def test_every_round_is_in_the_file_once_it_is_over(tmp_path):
    path = tmp_path / "runs" / "history.jsonl"
    strategy, lengths = budgeted(history_path=path), []

    def count(server_round, arrays):
        lengths.append(len(path.read_text().splitlines()) if path.exists() else 0)

    run(strategy, Nodes(), rounds=3, evaluate_fn=count)
    assert lengths == [0, 12, 18, 24]
    assert [json.loads(line) for line in path.read_text().splitlines()] == list(strategy.history)
    table = strategy.history.to_pandas()
    assert list(table.columns) == list(FIELDS) and len(table) == 24
    read = pd.read_json(path, lines=True, dtype=False, convert_dates=False)
    pd.testing.assert_frame_equal(read, table, check_dtype=False)


def test_the_records_of_another_run_are_not_written_over(tmp_path):
    path = tmp_path / "history.jsonl"
    run(budgeted(history_path=path), Nodes(), rounds=1)
    before = path.read_bytes()
    with pytest.raises(ValueError, match="holds the records of another run"):
        run(budgeted(history_path=path), Nodes(), rounds=1)
    assert path.read_bytes() == before


def test_without_a_round_the_table_has_its_columns():
    assert list(budgeted().history.to_pandas().columns) == list(FIELDS)
