"""The row file: what it holds, when it is written, and what reading refuses."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from row_factory import make_rows, write_trial

from experiments.results import rows as rows_module
from experiments.results.row_schema import COLUMNS, SCHEMA, TIMING_COLUMNS
from experiments.results.rows import RowWriter, read_rows

ACCURACY = [0.1, 0.2, 0.3]


def test_rows_come_back_in_order_whatever_the_folders_are_called(tmp_path: Path) -> None:
    for method, seed in (("fedavg", 7), ("bippo", 28), ("mine.checkpoint_000001", 7), ("bippo", 7)):
        write_trial(tmp_path / "checkpointed", make_rows(ACCURACY, method, seed))
    read = read_rows(tmp_path)
    trials = [("bippo", 7), ("bippo", 28), ("fedavg", 7), ("mine.checkpoint_000001", 7)]
    expected = [(*trial, number) for trial in trials for number in (1, 2, 3)]
    assert list(zip(read["method"], read["seed"], read["round"], strict=True)) == expected
    assert list(read["mean_accuracy"]) == 4 * ACCURACY and read["epsilon"].isna().all()
    assert [list(value) for value in read["costs_j"][:3]] == [[1.0, 2.0]] * 3
    assert {*make_rows(ACCURACY)[0]} <= {*read.columns}


def test_columns_name_their_unit_and_meaning_in_the_file(tmp_path: Path) -> None:
    schema = pq.read_schema(write_trial(tmp_path, make_rows(ACCURACY)))
    assert schema.names == [column.name for column in COLUMNS]
    assert schema.field("energy_j").metadata[b"unit"] == b"J"
    assert all(schema.field(column.name).metadata[b"meaning"] for column in COLUMNS)
    assert set(TIMING_COLUMNS) == {column.name for column in COLUMNS if column.unit == "s"} | {"measured_j"}


def test_overspending_fails_loudly_and_is_not_written(tmp_path: Path) -> None:
    writer = RowWriter(tmp_path)
    (row,) = make_rows([0.5], budget_j=2.0, energy_j=2.0 * (1 + 1e-9))
    writer.append(row)
    with pytest.raises(
        RuntimeError, match=r"round 1 of bippo-seed7 spent 2\.00001 J, more than its budget of 2 J, on clients 1"
    ):
        writer.append({**row, "energy_j": 2.00001})
    writer.flush()
    assert len(read_rows(tmp_path)) == 1


def test_the_file_is_rewritten_at_most_once_per_interval(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    now = 100.0
    monkeypatch.setattr(rows_module.time, "monotonic", lambda: now)
    writer = RowWriter(tmp_path, interval_s=1.0)
    lengths = []
    for row, now in zip(make_rows([0.1] * 4), (100.0, 100.5, 101.0, 101.9), strict=True):  # noqa: B007
        writer.append(row)
        lengths.append(len(read_rows(tmp_path)))
    # Written at 100.0 and at 101.0; the rows of 100.5 and 101.9 wait for the next write.
    assert lengths == [1, 1, 3, 3]
    writer.flush()
    assert len(read_rows(tmp_path)) == 4


def test_a_write_that_dies_leaves_the_last_file_readable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first, second = make_rows([0.1, 0.2])
    writer = RowWriter(tmp_path, interval_s=0.0)
    writer.append(first)

    def dies(table: object, where: Path) -> None:
        Path(where).write_bytes(b"PAR1 half a file")
        raise OSError("disk full")

    monkeypatch.setattr(rows_module.pq, "write_table", dies)
    with pytest.raises(OSError, match="disk full"):
        writer.append(second)
    assert list(read_rows(tmp_path)["round"]) == [1]
    assert [path.name for path in tmp_path.rglob("*.parquet")] == ["rows.parquet"]


def test_no_folder_and_no_rows_are_different_errors(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"no results folder .*nowhere: run `bippo tune"):
        read_rows(tmp_path / "nowhere")
    with pytest.raises(ValueError, match=r"no rows\.parquet under"):
        read_rows(tmp_path)


EMPTY = pa.Table.from_pylist([], schema=SCHEMA)
OTHER_TYPE = pa.table({**{f.name: pa.nulls(1, f.type) for f in SCHEMA}, "reward": ["much"]})


@pytest.mark.parametrize(
    ("damage", "named"),
    [
        (lambda path: path.write_bytes(path.read_bytes()[:100]), "which is not a readable Parquet file"),
        (lambda path: pd.DataFrame({"round": [1]}).to_parquet(path), "has no column scenario, method"),
        (lambda path: pq.write_table(EMPTY, path), "has no rows"),
        (lambda path: pq.write_table(OTHER_TYPE, path), "column reward is no double"),
    ],
)
def test_a_file_without_rows_of_a_trial_is_named_and_left_out(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], damage: Callable[[Path], object], named: str
) -> None:
    good, bad = write_trial(tmp_path, make_rows(ACCURACY)), write_trial(tmp_path, make_rows(ACCURACY, seed=28))
    damage(bad)
    assert list(read_rows(tmp_path)["seed"].unique()) == [7]
    (warning,) = capsys.readouterr().err.splitlines()
    assert warning.startswith(f"warning: left out {bad}, ") and named in warning
    good.write_bytes(b"")
    with pytest.raises(ValueError, match="none of the 2"):
        read_rows(tmp_path)


def test_two_rows_for_one_round_are_refused(tmp_path: Path) -> None:
    write_trial(tmp_path / "a", make_rows(ACCURACY))
    write_trial(tmp_path / "copy-of-a", make_rows(ACCURACY))
    with pytest.raises(ValueError, match="more than one row for round 1 of trial bippo-seed7"):
        read_rows(tmp_path)


ODD = {
    "seed": [2**32, 2**32, 2**32],
    "round": [1, 3, 2],
    "mean_accuracy": [0.1, float("nan"), 0.3],
    "reward": [0.0, float("inf"), 0.0],
    "energy_j": [1.0, -1.0, 1.0],
    "budget_j": [float("nan")] * 3,
    "num_clients": [2, 3, 2],
    "num_trained": [1, 1, 0],
    "trained": [[1], [5], [1]],
    "failed": [[], [-1], []],
    "clients": [[0, 1], [1, 0], [0, 1]],
    "costs_j": [[1.0, 2.0], [1.0], [1.0, 2.0]],
    "accuracies": [[0.1, 0.1], [0.1, 1.1], [0.1, 0.1]],
    "epsilon": [0.1, 2.0, 0.1],
    "fl_seconds": [1.0, None, 1.0],
    "method": ["bippo", "ippo", "bippo"],
    "trial": ["x" * 10**6] * 3,
}


@pytest.mark.parametrize("name", ODD)
def test_a_file_of_numbers_that_no_round_has_is_left_out_by_name(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    path = write_trial(tmp_path, make_rows(ACCURACY))
    table = pq.read_table(path)
    index = table.column_names.index(name)
    pq.write_table(table.set_column(index, table.schema.field(name), [pa.array(ODD[name], table[name].type)]), path)
    with pytest.raises(ValueError, match=r"none of the 1 rows\.parquet files"):
        read_rows(tmp_path)
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(f"warning: left out {path}, wh") and name in line and len(line) < 400


def test_checkpoints_that_come_and_go_meanwhile_are_not_looked_into(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trial = write_trial(tmp_path, make_rows(ACCURACY)).parent
    walk = os.walk

    def removed_on_the_way(folder: Path) -> Iterator[tuple[str, list[str], list[str]]]:
        for parent, folders, files in walk(folder):
            yield parent, folders, files
            assert "checkpoint" not in str(Path(parent).relative_to(tmp_path))

    (trial / "checkpoint_000010" / "learner").mkdir(parents=True)
    monkeypatch.setattr(os, "walk", removed_on_the_way)
    assert len(read_rows(tmp_path)) == 3
