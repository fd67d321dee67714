"""Rows as a study would write them, for tests that read rows only."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from experiments.results.rows import RowWriter


def make_rows(
    accuracy: Sequence[float], method: str = "bippo", seed: int = 7, setting: str = "", **columns: Any
) -> list[dict[str, Any]]:
    """Returns one row per entry of `accuracy`; two clients of 1 J and 2 J, a budget of 2 J, the second one trains."""
    row = {
        "scenario": "digits",
        "method": method,
        "seed": seed,
        "trial": " ".join(filter(None, [f"{method}-seed{seed}", setting])).replace(" ", "-"),
        "setting": setting,
        "reward": 0.0,
        "energy_j": 2.0,
        "budget_j": 2.0,
        "num_clients": 2,
        "num_trained": 1,
        "trained": [1],
        "failed": [],
        "clients": [0, 1],
        "costs_j": [1.0, 2.0],
        "probing_j": 0.0,
        "selection_j": 0.0,
        "measured_j": None,
        "suggestions": [0.25, 0.75],
        "scores": [float("-inf"), 1.5],
        "rewards": [0.0, 0.1],
        "epsilon": float("nan"),
        "fl_seconds": 1.0,
        "rl_seconds": 0.01,
        **columns,
    }
    return [
        {**row, "round": index + 1, "mean_accuracy": value, "accuracies": [value, value]}
        for index, value in enumerate(accuracy)
    ]


def frame(*trials: list[dict[str, Any]]) -> pd.DataFrame:
    """Returns the rows of these trials as the report has them."""
    return pd.DataFrame([_for_its_clients(row) for trial in trials for row in trial])


def write_trial(results_dir: Path, rows: Sequence[dict[str, Any]]) -> Path:
    """Writes one trial's rows to its folder, with an entry for each client they name; returns the file."""
    writer = RowWriter(results_dir / rows[0]["trial"])
    for row in rows:
        writer.append(_for_its_clients(row))
    writer.flush()
    return writer.path


def _for_its_clients(row: dict[str, Any]) -> dict[str, Any]:
    number = len(row["clients"])
    trained = [client for client in row["trained"] if client in row["clients"]]
    lists = {name: [*row[name], *[1.0] * number][:number] for name in ("costs_j", "suggestions", "scores", "rewards")}
    counts = {"num_clients": number, "num_trained": len(trained), "trained": trained}
    return {**row, **counts, **lists, "accuracies": [row["mean_accuracy"]] * number}
