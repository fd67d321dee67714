"""The benchmarks of FL training, small: every contestant is measured, and what is printed is what was measured."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from experiments.benchmark import command as benchmark


@pytest.mark.slow
def test_our_round_is_timed_beside_a_bare_loop(ray_session: None, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    file = tmp_path / "new" / "record.json"
    arguments = ["fl", "--scenario", "digits", "--clients", "2", "--actors", "1", "2"]
    assert benchmark.main([*arguments, "--json", str(file)]) == 0
    rows = {row["round"]: row for row in json.loads(file.read_text())["rows"]}
    assert list(rows) == ["bare loop", "serial", "1 actor", "2 actors"]
    assert all(row["ms"] > 0.1 for row in rows.values())
    assert rows["bare loop"]["x bare loop"] == rows["serial"]["x as fast as serial"] == 1.0
    # A round on digits is so short that calling actors costs more than the training.
    assert rows["1 actor"]["x as fast as serial"] < 1.0
    assert f"{rows['2 actors']['ms']:.3g}" in capsys.readouterr().out


@pytest.mark.slow
def test_a_round_of_null_clients_is_timed_beside_bare_ray(ray_session: None, tmp_path: Path):
    file = tmp_path / "record.json"
    arguments = ["null-clients", "--clients", "40", "--actors", "1", "--rounds", "20"]
    assert benchmark.main([*arguments, "--json", str(file)]) == 0
    (found,) = json.loads(file.read_text())["rows"]
    assert (found["clients"], found["trained"]) == (40, 4)
    assert 1.0 < found["ratio"] < 10.0  # two phases of calls against one: about 2


@pytest.mark.parametrize("name", ["fl", "null-clients"])
def test_too_few_rounds_for_a_median_are_refused(name: str, capsys: pytest.CaptureFixture[str]):
    assert benchmark.main([name, "--rounds", "5"]) == 2
    assert capsys.readouterr().err == ("error: argument --rounds: 5 is too small; it must be at least 20; see --help\n")


def test_more_clients_than_there_are_is_one_line(capsys: pytest.CaptureFixture[str]):
    assert benchmark.main(["fl", "--scenario", "digits", "--clients", "21"]) == 2
    assert capsys.readouterr().err == "error: --clients is 21, but digits has 20; lower it\n"
