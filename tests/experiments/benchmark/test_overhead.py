"""What ``benchmark rl`` measures, and what it makes of its rows."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from experiments.benchmark import command as benchmark
from experiments.benchmark.rl import command as rl
from experiments.benchmark.rl import process
from experiments.benchmark.rl.page import (
    SIZE_COLUMNS,
    TIME_COLUMNS,
    case_table,
    macs_table,
    ratios,
    ratios_table,
    write_report,
)
from experiments.benchmark.rl.process import ContestantProcess
from experiments.benchmark.rl.rows import (
    BIPPO,
    CENTRAL,
    PRIOR,
    ROWS_FILE,
    STOCK,
    Case,
    Checkpoint,
    Measurement,
    Pair,
    read_rows,
    write_rows,
)
from experiments.benchmark.rl.summary import measurements, ratio
from experiments.benchmark.rl.turns import Record, run_in_turns

DOCS = Path(__file__).resolve().parents[3] / "docs"


OURS_ONLY = ["--stock-max", "0", "--central-max", "0"]


CHECKPOINT = Checkpoint(checkpoint_s=0.5, checkpoint_mib=20.0, checkpoint_files=24)


def row(implementation=BIPPO, rule="20", clients=1000, trained=20, rounds=50, **figures) -> Measurement:
    values = {
        "updates_per_round": trained / 2,
        "rl_ms": 10.0,
        "forward_ms": 2.0,
        "sampler_ms": 1.0,
        "bookkeeping_ms": 3.0,
        "learner_ms": 4.0,
        "kernel_ms": 2.0 if implementation == BIPPO else None,
        "resident_mib_first": 800.0,
        "resident_mib_last": 800.0,
        "build_s": 2.0,
        "checkpoint_s": 0.5,
        "checkpoint_mib": 20.0,
        "checkpoint_files": 24,
    }
    return Measurement(case=Case(implementation, rule, clients, trained, rounds), **{**values, **figures})


def pair(rl_ms=10.0, **figures) -> Pair:
    values = {"forward_ms": 2.0, "sampler_ms": 1.0, "bookkeeping_ms": 3.0, "learner_ms": 4.0}
    return Pair(rl_ms=rl_ms, **{**values, "updates_per_round": 1.0, "resident_mib": 800.0, **figures})


class FakeContestant:
    """Notes its turns in a log that all share; fails in its turn number ``fails`` or at its ``"end"``."""

    build_s = 1.0

    def __init__(self, name, log, fails=None):
        self.name, self.log, self.fails = name, log, fails
        self.turns = 0

    def pairs(self, count):
        self.log.append((self.name, count))
        self.turns += 1
        if self.turns == self.fails:
            raise RuntimeError("out of memory")
        return [pair(kernel_forward_ms=1.0, kernel_update_ms=1.0)] * count

    def end(self):
        self.log.append((self.name, "end"))
        if self.fails == "end":
            raise RuntimeError("out of memory")
        return CHECKPOINT

    def close(self):
        self.log.append((self.name, "closed"))


def measured(case: Case) -> Measurement:
    """The case's row, measured in this process."""
    from experiments.benchmark.rl.measure import Contestant

    records, failures = run_in_turns([case], Contestant)
    assert not failures
    return measurements(records, case)[0]


@pytest.mark.parametrize(("who", "clients", "trained"), [(BIPPO, 30, 30), (BIPPO, 60, 7), (PRIOR, 60, 7)])
def test_as_many_take_part_as_asked_for(ray_session, who, clients, trained):
    found = measured(Case(who, str(trained), clients, trained, 10))
    assert min(found.forward_ms, found.sampler_ms, found.bookkeeping_ms, found.learner_ms) > 0.0
    # Batch 2 and the same clients in every round: each is updated in every second one.
    assert found.updates_per_round == trained / 2
    assert found.kernel_ms is None if who == PRIOR else found.kernel_ms > 0.0
    assert found.checkpoint_files > 5 and found.checkpoint_mib > clients * 3 * 1923 * 4 / 2**20 * 0.99
    assert found.resident_mib_last > 100.0


def test_parts_of_a_pair_of_rounds_add_up(ray_session):
    from experiments.benchmark.rl.measure import measure_pair
    from experiments.benchmark.rl.stopwatch import Stopwatch
    from experiments.benchmark.rl.subjects import build_bippo

    found = measure_pair(build_bippo(Case(BIPPO, "3", 40, 3, 10), Stopwatch()))
    parts = [getattr(found, f"{part}_ms") for part in ("forward", "sampler", "bookkeeping", "learner")]
    assert found.rl_ms == pytest.approx(sum(parts)) and min(parts) > 0.0
    assert min(found.kernel_forward_ms, found.kernel_update_ms) > 0.0


def test_the_central_network_is_updated_once_in_two_rounds(ray_session):
    found = measured(Case(CENTRAL, "7", 30, 7, 20))
    assert found.updates_per_round == 0.5
    assert min(found.forward_ms, found.sampler_ms, found.learner_ms) > 0.0 and found.kernel_ms is None


def test_building_and_training_make_no_module_per_policy(ray_session):
    from experiments.benchmark.rl.stopwatch import Stopwatch
    from experiments.benchmark.rl.subjects import build_bippo

    subject = build_bippo(Case(BIPPO, "3", 40, 3, 10), Stopwatch())
    assert subject.pair() == 3
    bank = subject.algo.bank
    assert len(bank) == 40 and bank._rl_modules._made == {}
    assert bank["client_00007"].actor[0].weight.data_ptr() == bank.flat[bank.slots["client_00007"]].data_ptr()


def test_stock_rllib_trains_as_many_policies_as_asked_for(ray_session):
    found = measured(Case(STOCK, "50 %", 6, 3, 8))
    assert found.updates_per_round == 1.5
    assert found.kernel_ms is None and found.sampler_ms == 0.0 and found.learner_ms > 0.0


def test_another_number_of_participants_is_an_error(ray_session, monkeypatch):
    from experiments.benchmark.rl import measure, subjects

    monkeypatch.setattr(subjects, "env_config", lambda case: {"num_clients": 6, "num_participants": 2})
    with pytest.raises(RuntimeError, match=r"2\.0 clients took part per round; the case says 3"):
        measure.Contestant(Case(BIPPO, "3", 6, 3, 10))


def test_cases_in_the_order_they_run():
    line = "--clients 300 20 --participants 20 --participation 0.1 --stock-max 100 --central-max 20"
    arguments = benchmark.parser().parse_args(["rl", *line.split()])
    assert [(c.implementation, c.rule, c.num_clients, c.num_participants) for c in rl.cases_of(arguments)] == [
        (BIPPO, "20", 20, 20),
        (PRIOR, "20", 20, 20),
        (CENTRAL, "20", 20, 20),
        (STOCK, "20", 20, 20),
        (BIPPO, "20", 300, 20),
        (PRIOR, "20", 300, 20),
        (BIPPO, "10 %", 20, 2),
        (PRIOR, "10 %", 20, 2),
        (CENTRAL, "10 %", 20, 2),
        (STOCK, "10 %", 20, 2),
        (BIPPO, "10 %", 300, 30),
        (PRIOR, "10 %", 300, 30),
    ]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--clients", "10"], "--participants is 20, more than the 10 of --clients"),
        (["--clients", "0", "--participation", "0.5"], "--clients: 0 is too small; it must be at least 1"),
        (["--clients", "-3"], "--clients: -3 is too small"),
        (["--clients", "20", "20"], "--clients has 20 twice"),
        (["--clients", "many"], "invalid int value: 'many'"),
        (["--participants", "0"], "--participants: 0 is too small; it must be at least 1"),
        (["--participation", "1.5"], "--participation is 1.5; it must be a share above 0 and at most 1"),
        (["--participation", "nan"], "--participation is nan"),
        (["--rounds", "9"], "--rounds: 9 is too small; it must be at least 10"),
        (["--stock-rounds", "3"], "--stock-rounds: 3 is too small; it must be at least 4"),
        (["--stock-max", "-1"], "--stock-max: -1 is too small"),
        (["--results-dir", "/dev/null/x"], "/dev/null is a file; name a folder"),
        (["--show", "/dev/null"], "/dev/null holds no rows of benchmark rl"),
        (["--show", "nowhere.json"], "nowhere.json"),
    ],
)
def test_bad_input_is_one_line_and_exit_code_2(arguments, message, capsys, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    assert benchmark.main(["rl", *arguments]) == 2
    output = capsys.readouterr()
    assert output.out == "" and output.err.count("\n") == 1
    assert output.err.startswith("error: ") and message in output.err
    assert list(tmp_path.iterdir()) == []


def test_a_folder_with_a_run_is_not_overwritten(tmp_path, capsys):
    (tmp_path / ROWS_FILE).write_text("{}")
    assert benchmark.main(["rl", "--results-dir", str(tmp_path)]) == 2
    assert "already holds a run" in capsys.readouterr().err


def recorded(cases):
    """Takes the place of ``run_in_turns``: nothing runs."""
    pairs = [pair(kernel_forward_ms=1.0, kernel_update_ms=1.0)]
    return [Record(case, 2.0, [pairs], CHECKPOINT) for case in cases], []


def test_an_interrupt_keeps_what_was_measured(tmp_path, monkeypatch, capsys):
    def run(cases):
        if cases[0].num_clients == 48:
            raise KeyboardInterrupt
        return recorded(cases)

    monkeypatch.setattr(rl, "run_in_turns", run)
    assert benchmark.main(["rl", "--clients", "20", "48", *OURS_ONLY, "--results-dir", str(tmp_path)]) == 130
    assert "2 of 4 cases are kept" in capsys.readouterr().err
    assert [r.case.num_clients for r in read_rows(tmp_path / ROWS_FILE).rows] == [20, 20]


def test_a_case_that_fails_is_named_and_the_others_are_measured(tmp_path, monkeypatch, capsys):
    def run(cases):
        able = [case for case in cases if case.num_clients == 48]
        return recorded(able)[0], [] if cases == able else ["bippo with 20 clients: no memory"]

    monkeypatch.setattr(rl, "run_in_turns", run)
    assert benchmark.main(["rl", "--clients", "20", "48", *OURS_ONLY, "--results-dir", str(tmp_path)]) == 1
    assert "error: bippo with 20 clients: no memory" in capsys.readouterr().err
    rows = read_rows(tmp_path / ROWS_FILE).rows
    assert [r.case.num_clients for r in rows] == [48, 48] and rows[0].rl_to_fewest is None


def test_bippo_with_the_fewest_clients_takes_turns_with_every_group(tmp_path, monkeypatch):
    groups = []

    def run(cases):
        groups.append([(case.implementation, case.rule, case.num_clients) for case in cases])
        return recorded(cases)

    monkeypatch.setattr(rl, "run_in_turns", run)
    arguments = [*("--clients", "48", "20"), *("--participants", "20"), *("--participation", "0.5"), *OURS_ONLY]
    assert benchmark.main(["rl", *arguments, "--results-dir", str(tmp_path)]) == 0
    assert groups == [
        [(BIPPO, "20", 20), (PRIOR, "20", 20)],
        [(BIPPO, "20", 48), (PRIOR, "20", 48), (BIPPO, "20", 20)],
        [(BIPPO, "50 %", 20), (PRIOR, "50 %", 20)],
        [(BIPPO, "50 %", 48), (PRIOR, "50 %", 48), (BIPPO, "50 %", 20)],
    ]
    rows = read_rows(tmp_path / ROWS_FILE).rows
    assert len(rows) == 8 and all(r.rl_to_fewest == 1.0 for r in rows if r.case.implementation == BIPPO)


def test_contestants_alternate_and_each_gets_all_of_its_rounds():
    log = []
    cases = [Case(BIPPO, "2", 4, 2, 500), Case(STOCK, "2", 4, 2, 10)]
    records, failures = run_in_turns(cases, lambda case: FakeContestant(case.implementation, log))
    assert not failures and [len(record.turns) for record in records] == [50, 50]
    # 250 pairs in 50 turns are 5 in each; 5 pairs are one in every tenth turn.
    assert log[:12] == [(BIPPO, 5)] * 10 + [(STOCK, 1), (BIPPO, 5)]
    assert log[-4:] == [(BIPPO, "end"), (STOCK, "end"), (BIPPO, "closed"), (STOCK, "closed")]
    assert [sum(map(len, record.turns)) for record in records] == [250, 5]


@pytest.mark.parametrize(("fails", "turns"), [(1, 1), (2, 2), ("end", 2)])
def test_one_that_fails_takes_no_more_turns_and_all_are_closed(fails, turns):
    log = []
    cases = [Case(BIPPO, "2", 4, 2, 20), Case(PRIOR, "2", 4, 2, 20)]

    def start(case):
        return FakeContestant(case.implementation, log, fails if case.implementation == BIPPO else None)

    (kept,), failures = run_in_turns(cases, start)
    assert failures == ["bippo with 4 clients, 2 trained: out of memory"] and kept.case.implementation == PRIOR
    assert log.count((BIPPO, 5)) == turns and log.count((PRIOR, 5)) == 2
    assert {(BIPPO, "closed"), (PRIOR, "closed"), (PRIOR, "end")} <= set(log)
    assert ((BIPPO, "end") in log) == (fails == "end")


def test_an_interrupt_closes_all_that_were_started():
    log = []

    def start(case):
        if case.implementation == PRIOR:
            raise KeyboardInterrupt
        return FakeContestant(case.implementation, log)

    with pytest.raises(KeyboardInterrupt):
        run_in_turns([Case(BIPPO, "2", 4, 2, 10), Case(PRIOR, "2", 4, 2, 10)], start)
    assert log == [(BIPPO, "closed")]


def test_a_machine_that_slows_down_does_not_change_a_ratio():
    speeds = [1.0, 1.0, 3.0, 3.0, 3.0]  # times as long, by turn
    slow = [[pair(20.0 * speed, learner_ms=8.0 * speed)] * 2 for speed in speeds]
    fast = [[pair(10.0 * speed, learner_ms=2.0 * speed)] * 3 for speed in speeds]
    # The slow one only had its turn in the first two: its median is that of the fast one.
    few = [*slow[:2], [], [], []]
    assert ratio(slow, fast) == ratio(few, fast) == 2.0
    assert ratio(fast, slow, "learner_ms", "learner_ms") == 0.25
    assert ratio([[], slow[0]], [fast[0], []]) is None


def test_rows_from_turns():
    small, large = Case(BIPPO, "2", 4, 2, 10), Case(BIPPO, "2", 400, 2, 10)
    speeds = [1.0, 1.0, 2.0, 2.0, 2.0]
    kernel = {"kernel_forward_ms": 1.0, "kernel_update_ms": 3.0}

    def record(case, rl_ms, growth=1.0):
        found = []
        for number, speed in enumerate(speeds):
            slower = speed * (growth if number == 4 else 1.0)
            times = {name: value * speed for name, value in kernel.items()} if case.implementation == BIPPO else {}
            found.append([pair(rl_ms * slower, resident_mib=800.0 + number, learner_ms=rl_ms / 2, **times)])
        return Record(case, 2.0, found, CHECKPOINT)

    stock = record(Case(STOCK, "2", 400, 2, 10), 160.0)
    few, many, other = measurements([record(small, 8.0), record(large, 16.0, growth=1.5), stock], small)
    assert (few.rl_to_kernel, few.rl_to_kernel_growth, few.rl_to_fewest, few.learner_to_fewest) == (2.0, 1.0, 1.0, 1.0)
    assert (many.rl_to_kernel, many.rl_to_kernel_growth) == (4.0, 1.5)
    assert (many.rl_to_fewest, many.learner_to_fewest, many.rl_to_bippo) == (2.0, 2.0, None)
    assert (other.rl_to_bippo, other.rl_to_kernel, other.rl_to_fewest, other.kernel_ms) == (10.0, None, None, None)
    # Medians over all pairs, memory of the first and the last fifth.
    assert (many.rl_ms, many.kernel_ms, many.learner_ms) == (32.0, 8.0, 8.0)
    assert (many.resident_mib_first, many.resident_mib_last) == (800.0, 804.0)
    assert (many.checkpoint_files, many.build_s) == (24, 2.0)


@pytest.mark.slow
def test_contestants_run_in_processes_of_their_own(ray_address, monkeypatch):
    monkeypatch.setitem(process._ENVIRONMENT, "RAY_ADDRESS", ray_address)
    case, broken = Case(BIPPO, "2", 4, 2, 10), Case("nobody's", "2", 4, 2, 10)
    (record,), failures = run_in_turns([case, broken])
    assert [len(turn) for turn in record.turns] == [5] and record.checkpoint.checkpoint_files > 5
    assert measurements([record], case)[0].updates_per_round == 1.0
    assert failures == ["nobody's with 4 clients, 2 trained: KeyError: \"nobody's\""]


def contestant_that_runs(script: str, tmp_path, monkeypatch) -> ContestantProcess:
    file = tmp_path / "python"
    file.write_text(f"#!/bin/sh\n{script}\n")
    file.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(file))
    return ContestantProcess(Case(BIPPO, "1", 2, 1, 10))


@pytest.mark.parametrize(
    ("script", "message"),
    [
        ("echo Traceback >&2; echo 'MemoryError: too much' >&2; exit 3", "MemoryError: too much"),
        ("exit 3", "exit code 3"),
        ("echo a warning >&2; kill -9 $$", "ended by SIGKILL, as when memory runs out"),
        ("echo hello; exec sleep 60", "it wrote 'hello' in the place of figures"),
    ],
)
def test_a_process_that_dies_says_of_what(script, message, tmp_path, monkeypatch):
    for before in ("", "echo 3.5; read line;"):
        with (
            pytest.raises(RuntimeError, match=f"^{re.escape(message)}$"),
            closing(contestant_that_runs(before + script, tmp_path, monkeypatch)) as contestant,
        ):
            contestant.pairs(1)


def interrupted(*args):
    raise KeyboardInterrupt


def test_a_process_that_waits_is_ended(tmp_path, monkeypatch):
    contestant = contestant_that_runs("echo 3.5; exec sleep 60", tmp_path, monkeypatch)
    assert contestant.build_s == 3.5 and contestant._process.poll() is None
    contestant.close()
    assert contestant._process.poll() == -signal.SIGTERM
    monkeypatch.setattr(ContestantProcess, "_reply", interrupted)
    started = []

    def popen(*args, _popen=subprocess.Popen, **keywords):
        started.append(_popen(*args, **keywords))
        return started[0]

    monkeypatch.setattr(process.subprocess, "Popen", popen)
    with pytest.raises(KeyboardInterrupt):
        ContestantProcess(Case(BIPPO, "1", 2, 1, 10))
    assert started[0].poll() == -signal.SIGTERM


def test_rows_survive_the_file_and_make_tables_and_figure(tmp_path):
    rows = [row(clients=20), row(STOCK, clients=20, rl_ms=1234.5), row(rule="10 %", clients=300, trained=30)]
    write_rows(tmp_path / ROWS_FILE, rows, "python -m experiments.benchmark rl --clients 20")
    again = read_rows(tmp_path / ROWS_FILE)
    assert again.rows == rows and again.command.endswith("--clients 20")
    assert json.loads((tmp_path / ROWS_FILE).read_text())["machine"]["cores"] == os.cpu_count()
    page, png, svg = write_report(again.rows, again.command, tmp_path)
    text = page.read_text()
    assert "| 20 | 20 | stock RLlib | 1,234 | 2.00 | – | 3.00 | 4.00 | – |" in text
    assert "| 300 | 30 (10 %) | BIPPO | 10.0 | 2.00 | 1.00 | 3.00 | 4.00 | 2.00 |" in text
    assert png.read_bytes().startswith(b"\x89PNG")
    drawn = svg.read_text()
    for label in ("stock RLlib", "BIPPO", "bare kernel", "RL time per round (ms)", "10 % of the clients"):
        assert label in drawn


def test_ratios_of_the_rows_that_are_there():
    rows = [
        row(clients=20, rl_to_kernel=2.5, rl_to_fewest=1.0, learner_to_fewest=1.0, rl_to_kernel_growth=1.1),
        row(CENTRAL, clients=20, rl_to_bippo=0.8),
        row(rl_to_fewest=2.0, learner_to_fewest=1.25, resident_mib_last=808.0),
        row(STOCK, rl_to_bippo=19.9),
        row(rule="10 %", trained=100),
    ]
    few, many, tenth = ratios(rows)
    assert few == {
        "clients": "20",
        "trained": "20",
        "stock : BIPPO": None,
        "central : BIPPO": 0.8,
        "with prior : BIPPO": None,
        "BIPPO : kernel": 2.5,
        "RL ms : fewest": 1.0,
        "learner : fewest": 1.0,
        "BIPPO : kernel, end : start": 1.1,
        "MiB, end : start": 1.0,
    }
    assert (many["stock : BIPPO"], many["central : BIPPO"]) == (19.9, None)
    assert (many["RL ms : fewest"], many["learner : fewest"]) == (2.0, 1.25)
    assert many["MiB, end : start"] == pytest.approx(1.01)
    assert (tenth["trained"], tenth["RL ms : fewest"], tenth["stock : BIPPO"]) == ("100 (10 %)", None, None)
    assert ratios([row(STOCK)]) == [] and ratios_table([row(STOCK)]) == ""


def test_the_docs_page_shows_the_committed_rows():
    found = read_rows(DOCS / "results" / ROWS_FILE)
    rows = found.rows
    page = (DOCS / "overhead.md").read_text(encoding="utf-8")
    tables = [case_table(rows, columns) for columns in (TIME_COLUMNS, SIZE_COLUMNS)]
    for part in (found.command, *tables, ratios_table(rows), macs_table()):
        assert part in page
    assert {r.case.num_clients for r in rows} >= {20, 1000, 10_000}
    assert all(r.case.rounds >= 500 for r in rows if r.case.implementation == BIPPO)
