"""Collected studies: the same rows and reports as those of the trials' own files, and what is refused."""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Callable
from pathlib import Path

import pandas as pd
import pyarrow.parquet as pq
import pytest
from row_factory import make_rows, write_trial

from experiments.report import command
from experiments.results.collection import CLIENTS_FILE, ROUNDS_FILE, read_collection
from experiments.results.row_schema import TIMING_COLUMNS
from experiments.results.rows import read_rows
from experiments.results.run_info import RunInfo, load_run_info, parse_run_info, write_run_info

INFO = RunInfo("digits", 0.8, 12, {"dataset": "digits", "data_dir": "/home/me"}, ["bippo", "poc"], [7], {"lr": 0.1})


def _study(folder: Path, **changes: object) -> Path:
    """A study in which a client joins, another one's training fails, and a meter reads something once."""
    trial = make_rows([0.05 * n for n in range(12)], epsilon=0.5)
    for row in trial[6:]:
        row.update(clients=[1, 4], trained=[4], failed=[1], measured_j=0.25, accuracies=[0.5, math.nextafter(0.5, 1)])
    write_trial(folder, trial)
    write_trial(folder, make_rows([0.5] * 11, "poc"))
    write_run_info(folder, dataclasses.replace(INFO, **changes))  # type: ignore[arg-type]
    return folder


def _collected(tmp_path: Path) -> Path:
    folders = [str(_study(tmp_path / name)) for name in ("first", "second")]
    assert command.main([*folders, "--collect", str(tmp_path / "both")]) == 0
    return tmp_path / "both"


def test_rows_and_records_come_back(tmp_path: Path) -> None:
    studies = read_collection(_collected(tmp_path))
    assert [*studies] == ["first", "second"]
    for name, study in studies.items():
        written = read_rows(tmp_path / name)
        kept = [name for name in written.columns if name not in TIMING_COLUMNS]
        pd.testing.assert_frame_equal(study.rows.drop(columns="measured_j"), written[kept])
        assert study.rows["measured_j"].equals(written["measured_j"]) and study.rows["measured_j"].notna().any()
        info = load_run_info(tmp_path / name)
        expected = dataclasses.replace(info, federation={"dataset": "digits"})
        assert parse_run_info(json.dumps(study.record), name) == expected


def test_pandas_alone_reads_them(tmp_path: Path) -> None:
    folder = _collected(tmp_path)
    rounds, clients = (pd.read_parquet(folder / name) for name in (ROUNDS_FILE, CLIENTS_FILE))
    assert rounds.attrs["studies"]["first"]["settings"] == {"lr": 0.1}
    both = rounds.merge(clients, on=["study", "trial", "round"])
    assert len(both) == len(clients) == rounds["num_clients"].sum()
    failed = clients[clients["failed"]]
    assert set(failed["client"]) == {1} and set(failed["round"]) == set(range(7, 13)) and len(failed) == 12
    assert clients.groupby(["study", "trial", "round"])["trained"].sum().eq(1).all()


def test_what_policies_did_may_be_left_out(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    study, out = _study(tmp_path / "one"), tmp_path / "out"
    assert command.main([str(study), "--collect", str(out), "--without", "scores", "rewards"]) == 0
    clients, rows = pd.read_parquet(out / CLIENTS_FILE), read_collection(out)["one"].rows
    assert clients[["score", "reward"]].isna().all(axis=None) and clients["suggestion"].notna().any()
    assert rows[["scores", "rewards"]].isna().all(axis=None)
    kept = [name for name in rows if name not in ("scores", "rewards", "measured_j")]
    pd.testing.assert_frame_equal(rows[kept], read_rows(study)[kept])
    assert command.main([str(study), "--without", "scores", "--output", str(out)]) == 2
    assert "without --collect" in capsys.readouterr().err


def test_the_report_is_the_same(tmp_path: Path, blank_figures: None, capsys: pytest.CaptureFixture[str]) -> None:
    collection, out = _collected(tmp_path), tmp_path / "out"
    for place, study in enumerate((tmp_path / "first", collection / "first")):
        assert command.main([str(study), "--output", str(out / str(place))]) == 0
    live, collected = ((out / str(place) / "report.md").read_text() for place in (0, 1))
    assert live == collected and "lr = 0.1" in live
    assert command.main([str(collection / "first")]) == 2 and "--output" in capsys.readouterr().err
    # Both studies have the same trials, and so has a folder around both.
    assert command.main([str(collection), "--output", str(out)]) == 2
    assert "first" in capsys.readouterr().err


def test_what_a_study_lacks_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _collected(tmp_path)
    out = capsys.readouterr().out
    assert "poc with seed 7 has 11 of 12 rounds" in out


def test_a_study_is_added_to_collected_ones(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder, third = _collected(tmp_path), _study(tmp_path / "third")
    before = read_collection(folder)["first"]
    assert command.main([str(folder), str(third), "--collect", str(folder)]) == 0
    after = read_collection(folder)
    assert [*after] == ["first", "second", "third"] and after["first"].rows.equals(before.rows)
    assert command.main([str(folder), str(third), "--collect", str(folder)]) == 2
    assert "third" in capsys.readouterr().err
    assert command.main([str(folder / "thrid"), "--output", str(tmp_path)]) == 2
    assert "third" in capsys.readouterr().err


@pytest.mark.parametrize("changes", [{"search": {"lr": "choice([1])"}, "draws": [{"lr": "1"}]}, None])
def test_what_is_not_collected(tmp_path: Path, changes: dict | None, capsys: pytest.CaptureFixture[str]) -> None:
    folder = _study(tmp_path / "study", **(changes or {}))
    if changes is None:
        (folder / "run.json").unlink()
    assert command.main([str(folder), "--collect", str(tmp_path / "out")]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert str(folder) in line and not (tmp_path / "out").exists()


def _without_last_row(path: Path) -> None:
    table = pq.read_table(path)
    pq.write_table(table.slice(0, len(table) - 1), path)


@pytest.mark.parametrize("name", [ROUNDS_FILE, CLIENTS_FILE])
@pytest.mark.parametrize(
    "damage",
    [
        _without_last_row,
        lambda path: path.write_bytes(path.read_bytes()[:-9]),
        lambda path: path.unlink(),
        lambda path: pq.write_table(pq.read_table(path).drop_columns("trial"), path),
    ],
)
def test_damaged_files_are_refused_in_one_line(
    tmp_path: Path, name: str, damage: Callable[[Path], object], capsys: pytest.CaptureFixture[str]
) -> None:
    folder = _collected(tmp_path)
    damage(folder / name)
    for reported in (folder, folder / "second"):
        capsys.readouterr()
        assert command.main([str(reported), "--output", str(tmp_path / "out")]) == 2
        (line,) = capsys.readouterr().err.splitlines()
        assert line.startswith("error: ") and str(folder) in line


def test_a_study_is_read_without_the_rows_of_others(tmp_path: Path) -> None:
    folder = _collected(tmp_path)
    every = read_collection(folder)
    for name, study in every.items():
        ((found, alone),) = read_collection(folder, name).items()
        assert found == name and alone.record == study.record
        pd.testing.assert_frame_equal(alone.rows, study.rows)
    clients = pq.ParquetFile(folder / CLIENTS_FILE)
    groups = [clients.read_row_group(number, ["study"])["study"].unique() for number in range(clients.num_row_groups)]
    assert [group.to_pylist() for group in groups] == [["first"], ["second"]]
