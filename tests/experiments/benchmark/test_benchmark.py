"""The benchmarks, small: each implementation is measured, does the work it claims to do, and the docs show the rows."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch

from experiments.benchmark import __main__ as benchmark
from experiments.benchmark import other_process, stacks
from experiments.benchmark.free_rounds import FreeRounds
from experiments.benchmark.turns import take_turns, to_markdown

DOCS = Path(__file__).resolve().parents[3] / "docs"


def test_ratios_are_of_the_same_turn_and_the_first_does_not_count():
    slow, speed = iter([9.0, 1.0, 2.0, 4.0]), iter([1.0, 1.0, 1.0, 4.0])
    table = take_turns({"a": lambda: next(slow), "b": lambda: next(speed)}, 0, ["b", "not measured"])
    assert table["ms per round"].tolist() == [2000, 1000] and table["turns"].tolist() == [3, 3]
    assert table["times b"].tolist() == ["1.00 (1.00–1.50)", "1.00 (1.00–1.00)"] and len(table.columns) == 4


def test_as_many_take_part_as_fit_and_only_they_report_a_profile():
    env = FreeRounds(6, 2)
    _, infos = env.reset()
    assert {info["budget"] // info["cost"] for info in infos.values()} == {2.0}
    _, _, _, _, infos = env.step({agent: int(agent.endswith(("1", "4"))) for agent in env.agents})
    assert env.participations == 2
    assert [agent for agent, info in infos.items() if info["update_profile"] is not None] == [
        "client_00001",
        "client_00004",
    ]


def test_torchrls_networks_get_the_update_of_our_kernel():
    pytest.importorskip("torchrl")
    ours, theirs = stacks.bare_kernel(7, 3), stacks.torchrl_stack(7, 3)
    before = stacks.bare_kernel(7, 0)
    for _ in range(2):
        updated, same = ours(), theirs()
    assert torch.allclose(updated, same, atol=2e-5)
    moved = (updated - before()).abs().amax(dim=1)
    assert (moved[:3] > 1e-3).all() and (moved[3:] == 0).all()


def test_rl_measures_all_and_writes_rows_and_figure(ray_session, tmp_path, capsys):
    arguments = ["--clients", "2", "4", "--trained", "2", "--seconds", "0"]
    assert benchmark.main(["rl", *arguments, "--output", str(tmp_path)]) == 0
    table = pd.DataFrame(json.loads((tmp_path / "rl.json").read_text())["rows"])
    cases = table.groupby(["clients", "trained"])["implementation"].agg(set)
    assert list(cases.index) == [(2, 2), (4, 2)]
    always = {"BIPPO", "with prior", "with set term", "central network", "stock RLlib", "bare kernel"}
    assert all(always <= names for names in cases)
    assert ["BIPPO, 2 clients" in names for names in cases] == [False, True]
    assert (table["CPU ms per round"] > 0).all() and np.isfinite(table["CPU ms per round"]).all()
    assert capsys.readouterr().out.count("| BIPPO |") == 2
    assert (tmp_path / "rl.png").stat().st_size > 10_000


@pytest.mark.slow
def test_fl_measures_our_executors_and_flower(ray_session, tmp_path):
    only = ["--only", "bare loop", "serial", "serial, profiles", "serial, all evaluated", "1 actor", "Flower"]
    arguments = ["--clients", "2", "--actors", "1", "--epochs", "1", "--seconds", "0"]
    assert benchmark.main(["fl", *arguments, *only, "--output", str(tmp_path)]) == 0
    rows = json.loads((tmp_path / "fl-digits.json").read_text())["rows"]
    assert [row["implementation"] for row in rows] == only[1:]
    assert all(row["ms per round"] > 0.1 for row in rows)


def test_a_library_that_does_not_end_loses_no_measurement(tmp_path, monkeypatch):
    monkeypatch.setattr(other_process, "ENDS_WITHIN_S", 0.1)
    hangs = tmp_path / "hangs"
    hangs.write_text("#!/bin/sh\nread line; echo 0.5; exec sleep 600\n")
    hangs.chmod(0o755)
    other = other_process.OtherProcess(str(hangs), "pfl_rounds", tmp_path / "work.pt")
    assert other() == 0.5
    other.close()


def test_what_cannot_be_measured_is_one_line(capsys):
    assert benchmark.main(["rl", "--clients", "10"]) == 2
    assert benchmark.main(["fl", "--clients", "21"]) == 2
    assert benchmark.main(["fl", "--only", "Flover"]) == 2
    trained, clients, name = capsys.readouterr().err.splitlines()[-3:]
    assert "20" in trained and "10" in trained and "digits has 20" in clients and "did you mean Flower" in name


ROWS = [("overhead", "rl"), ("cluster", "fl-fashion-mnist"), ("cluster", "fl-digits")]


@pytest.mark.parametrize(("page", "rows"), ROWS)
def test_pages_show_the_rows_that_were_measured(page, rows):
    record = json.loads((DOCS / "results" / f"{rows}.json").read_text())
    text = (DOCS / f"{page}.md").read_text()
    assert record["command"] in text
    table = pd.DataFrame(record["rows"])
    cases = [case for _, case in table.groupby(["clients", "trained"], sort=False)] if page == "overhead" else [table]
    for case in cases:
        assert to_markdown(case) in text
