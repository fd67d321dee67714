"""The long table by client: what it takes from rows, collections and files without the newest columns."""

from __future__ import annotations

import math
from pathlib import Path

import pandas as pd
import pyarrow.parquet as pq
import pytest
from row_factory import make_rows, write_trial

from experiments.report import command
from experiments.report.client_rows import client_rows
from experiments.results.run_info import RunInfo, write_run_info

INFO = RunInfo("digits", 0.8, 3, {"dataset": "digits"}, ["bippo", "poc"], [7], {})


@pytest.fixture
def study(tmp_path: Path) -> Path:
    """Two methods and three rounds, in the last of which client 0's training fails."""
    trial = make_rows([0.1, 0.2, 0.3])
    trial[-1]["failed"] = [0]
    write_trial(tmp_path / "first", trial)
    write_trial(tmp_path / "first", make_rows([0.5] * 3, "poc"))
    write_run_info(tmp_path / "first", INFO)
    return tmp_path / "first"


def test_a_row_for_each_trial_round_and_client(study: Path) -> None:
    table = client_rows(study)
    assert len(table) == 2 * 3 * 2 and set(table["study"]) == {"first"}
    first, second = table[table["method"].eq("bippo") & table["round"].eq(3)].to_dict("records")
    assert (first["client"], first["trained"], first["failed"], first["selected"]) == (0, False, True, True)
    assert (second["client"], second["trained"], second["failed"], second["selected"]) == (1, True, False, True)
    assert (first["suggestion"], first["score"], first["reward"]) == (0.25, -math.inf, 0.0)
    assert (second["suggestion"], second["score"], second["reward"]) == (0.75, 1.5, 0.1)
    assert (second["cost_j"], second["accuracy"], second["seed"]) == (2.0, 0.3, 7)


def test_collected_studies_have_the_same_table(study: Path, tmp_path: Path) -> None:
    assert command.main([str(study), "--collect", str(tmp_path / "all")]) == 0
    pd.testing.assert_frame_equal(client_rows(tmp_path / "all"), client_rows(study), check_exact=True)
    both = client_rows([study, tmp_path / "all"])
    assert len(both) == 2 * len(client_rows(study))


def test_files_of_before_the_columns_have_nan(study: Path) -> None:
    path = study / "bippo-seed7" / "rows.parquet"
    pq.write_table(pq.read_table(path).drop_columns(["suggestions", "scores", "rewards"]), path)
    table = client_rows(study)
    assert table["suggestion"].isna().sum() == 6 and table["accuracy"].notna().all()
