"""Trace files: what they mean, and one clear line with file and line number for each that is wrong."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from envs.config import FederationConfig
from envs.rules import churn_trace
from envs.rules.churn import ChurnEvent
from envs.rules.churn_trace import read_trace

HEADER = "client,join_round,leave_round\n"


def written(tmp_path, text):
    path = tmp_path / "trace.csv"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def test_a_trace_is_the_events_it_says(tmp_path):
    # Unsorted, with an empty line, blanks, Windows line ends and the mark that Excel puts first.
    text = "\ufeff" + (HEADER + "0,180,\n3, 100 ,\n\n0,0,150\n1,0,\n").replace("\n", "\r\n")
    trace = written(tmp_path, text)
    events = (ChurnEvent(150, 0, "leave"), ChurnEvent(180, 0, "join"), ChurnEvent(100, 3, "join"))
    assert read_trace(trace, num_clients=5) == events
    from_file = FederationConfig(num_clients=5, churn_trace=str(trace)).churn_schedule()
    from_events = FederationConfig(num_clients=5, churn=events).churn_schedule()
    # Client 3 comes late; client 4 has no line and is live throughout.
    assert from_file.live_at_start == from_events.live_at_start == (0, 1, 2, 4)
    assert from_file.num_stays.tolist() == from_events.num_stays.tolist() == [2, 1, 1, 1, 1]
    for round_index in range(1, 200):
        assert from_file.changes((), 0, 0, round_index) == from_events.changes((), 1, 2, round_index)
    assert from_file.changes((), 0, 0, 150) == ((), (0,)) and from_file.changes((), 0, 0, 180) == ((0,), ())


def test_a_trace_may_be_longer_than_the_run(tmp_path):
    trace = written(tmp_path, HEADER + f"0,0,1000000000\n1,10,\n1,0,5\n2,{10**17},{10**18 - 1}\n")
    schedule = FederationConfig(num_clients=3, rounds=10, churn_trace=str(trace)).churn_schedule()
    # Client 1 returns after the last round, client 2 joins later still: neither stay comes about.
    assert schedule.live_at_start == (0, 1) and schedule.num_stays.tolist() == [1, 1, 0]


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ("4,0,\n", "line 2: client is 4; .*num_clients=4"),
        ("0,0,\n\nclient_001,0,\n", "line 4: client is 'client_001'"),
        ("0,-1,\n", "line 2: join_round is '-1'"),
        ("0,,5\n", "line 2: join_round is ''"),
        ("0,0,5.5\n", "line 2: leave_round is '5.5'"),
        ("0,0,²\n", "line 2: leave_round is '²'"),
        (f"0,{'9' * 5000},\n", "line 2: join_round has 5000 digits"),
        (f"0,0,{'x' * 5000}\n", f"line 2: leave_round is '{'x' * 60}...'"),
        ("1000000000,0,\n", "line 2: client is 1000000000"),
        ('"a\nb",0,\n', r"line 3: client is 'a\\nb'"),
        ("0,5,5\n", "line 2: leave_round is 5; .*above join_round, 5"),
        ("0,0\n", "line 2: 2 values; .*client,join_round,leave_round"),
        ("0,0,5,6\n", "line 2: 4 values"),
        ("0,5,9\n1,0,\n0,0,5\n", "line 2: client 0 joins after round 5, but by line 4 it leaves after round 5"),
        ("0,0,\n0,7,9\n", "line 3: client 0 joins after round 7, but by line 2 it stays"),
        ("0,0,9\n0,0,9\n", "line 3: client 0 joins after round 0, but by line 2 it leaves after round 9"),
    ],
)
def test_a_wrong_line_is_named(tmp_path, lines, message):
    trace = written(tmp_path, HEADER + lines)
    with pytest.raises(ValueError, match=f"^{trace}, {message}") as error:
        FederationConfig(num_clients=4, churn_trace=str(trace))
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", r"trace.csv, line 1: the header is ''; .*client,join_round,leave_round"),
        ("0,0,5\n", "line 1: the header is '0,0,5'"),
        (b"\xff\xfe0", "trace.csv is not a CSV file in UTF-8"),
        (HEADER + "0,1,\n1,1,\n", "no client is live at the start"),
    ],
)
def test_a_wrong_file_is_named(tmp_path, content, message):
    with pytest.raises(ValueError, match=message) as error:
        FederationConfig(num_clients=2, churn_trace=str(written(tmp_path, content)))
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("make", [Path.mkdir, getattr(os, "mkfifo", Path.mkdir)])
def test_what_is_no_regular_file_is_no_trace(tmp_path, make):
    make(tmp_path / "trace")
    with pytest.raises(ValueError, match=r"^churn_trace .*trace is no regular file; name a CSV file$"):
        FederationConfig(churn_trace=str(tmp_path / "trace"))


def test_a_trace_that_is_not_there_or_too_large_is_named(tmp_path, monkeypatch):
    with pytest.raises(ValueError, match=r"^churn_trace .*nowhere cannot be read: No such file or directory$"):
        read_trace(tmp_path / "nowhere", num_clients=2)
    with pytest.raises(ValueError, match=r"^churn_trace is '~no such user/trace.csv'; the path leads nowhere: "):
        FederationConfig(churn_trace="~no such user/trace.csv")
    monkeypatch.setattr(churn_trace, "MAX_BYTES", 2**20)
    with pytest.raises(ValueError, match=r"^churn_trace .*trace.csv has more than 1 MiB; expected one stay a line$"):
        read_trace(written(tmp_path, HEADER + "\n" * 2**20), num_clients=2)
