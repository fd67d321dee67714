"""What a study shows while it runs, on a terminal and elsewhere."""

from __future__ import annotations

import io
import os
from typing import Any

import pytest

from envs.rules.churn import ChurnEvent
from experiments.study.progress import Progress, overall_line


class FakeTrial:
    def __init__(self, name: str, resume_from: str = "") -> None:
        self.name = name
        federation = {"num_clients": 8, "churn": (ChurnEvent(2, 7, "join"),)}
        trial = {"resume_from": resume_from, "search": {"env.budget_share": 0.5}}
        self.config = {"trial": trial, "federation": federation, "rounds": 10}
        self.pickled_error_file = None

    def __str__(self) -> str:
        return self.name


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def result(round_: int) -> dict[str, Any]:
    return {"round": round_, "mean_accuracy": 0.5, "energy_total_j": 3.25, "warmup_energy_j": 1.5}


def play(out: io.StringIO) -> Progress:
    """Two trials of 10 rounds: one is resumed at 10 s and at round 5 at 30 s; it then finishes, the other one fails."""
    now = 0.0
    progress = Progress(rounds=10, num_trials=2, name_width=12, out=out, clock=lambda: now)
    first, second = FakeTrial("bippo-seed7"), FakeTrial("fedavg-seed7")
    for trial in (first, second):
        progress.on_trial_start(1, [], trial)
    now = 10.0
    progress.on_trial_result(2, [], first, result(3))
    now = 30.0
    progress.on_trial_result(3, [], first, result(5))
    progress.on_step_end(3, [])
    progress.on_trial_result(4, [], first, result(10))
    progress.on_trial_complete(5, [], first)
    progress.on_trial_error(6, [], second)
    progress.close()
    return progress


@pytest.mark.parametrize(
    ("resume_from", "first"), [("", "round 0, in which all 7 clients train"), ("checkpoint", "its next round")]
)
def test_before_a_first_row_it_says_what_is_waited_for(resume_from: str, first: str) -> None:
    now, terminal = 0.0, Terminal()
    shown = io.StringIO(), terminal
    both = [Progress(rounds=10, num_trials=2, name_width=12, out=out, clock=lambda: now) for out in shown]
    trial, last = FakeTrial("bippo-seed7", resume_from), FakeTrial("fedavg-seed7")
    events = [
        lambda p: None,
        lambda p: p.on_trial_start(1, [], trial),
        lambda p: p.on_trial_result(2, [], trial, result(3)),
    ]
    events += [lambda p: p.on_trial_complete(3, [], trial), lambda p: p.on_trial_start(3, [], last)]
    for event in events:
        now += 20.0
        for progress in both:
            event(progress)
            progress.on_step_end(1, [])
    worker, round_0 = "waiting for a worker to start", "waiting for round 0, in which all 7"
    ends = [line.rpartition("   ")[2] for line in shown[0].getvalue().splitlines()]
    assert ends[:5] == [worker, f"waiting for {first}", "estimating time left", "stopped early", worker]
    assert ends[5] == f"{round_0} clients train"
    assert f"  bippo-seed7    waiting for {first}\n" in terminal.getvalue()


def test_elsewhere_lines_are_only_added() -> None:
    out = io.StringIO()
    progress = play(out)
    assert out.getvalue().splitlines() == [
        # Two rounds in the 20 s since the first row, so ten seconds for each of the fifteen that are left.
        "trials 0/2 done   rounds 5/20 (25 %)   elapsed 0:30   about 2:30 left",
        "  bippo-seed7    round 10/10   accuracy 0.500       3.25 J   done",
        "  fedavg-seed7   FAILED",
    ]
    assert progress.warmup_energy_j == {"bippo-seed7": 1.5}


def test_a_terminal_ends_with_the_finished_trials_only() -> None:
    out = Terminal()
    play(out)
    assert screen(out.getvalue()) == [
        "  bippo-seed7    round 10/10   accuracy 0.500       3.25 J   done",
        "  fedavg-seed7   FAILED",
    ]
    assert "round  5/10   accuracy 0.500" in out.getvalue()


def screen(written: str) -> list[str]:
    """The lines left on a screen that knows `ESC[nA` followed by `ESC[J`: go up n lines and clear what is below."""
    lines: list[str] = []
    for part in written.split("\x1b["):
        if part.startswith("J"):
            part = part[1:]
        elif part[:1].isdigit():
            up = int(part.partition("A")[0])
            del lines[len(lines) - up :]
            continue
        lines += part.splitlines()
    return lines


@pytest.mark.parametrize("out", [io.StringIO(), Terminal()])
def test_what_is_wrong_with_a_meter_stays(out: io.StringIO) -> None:
    progress = Progress(rounds=10, num_trials=1, name_width=12, out=out, clock=lambda: 0.0)
    trial = FakeTrial("bippo-seed7")
    progress.on_trial_start(1, [], trial)
    progress.on_trial_result(2, [], trial, result(1) | {"meter_warnings": ["energy_meter m counted nothing"]})
    progress.on_trial_result(3, [], trial, result(2) | {"meter_warnings": []})
    progress.close()
    before, _, after = out.getvalue().partition("bippo-seed7: energy_meter m counted nothing\n")
    assert before == "" if not out.isatty() else before.endswith("\x1b[J")  # what is drawn next does not erase it
    assert ("round  1/10" in after.split("\n")[0]) == out.isatty()


def test_time_left_is_not_guessed_from_nothing() -> None:
    assert overall_line(0, 600, 0, 6, 12.0).endswith("estimating time left")
    # A tenth took 12 minutes: nine times as much is left, 1 h 48 min.
    assert overall_line(60, 600, 0, 6, 720.0).endswith("about 1:48:00 left")


def test_the_first_line_comes_soon_and_the_next_ones_do_not() -> None:
    now, out = 0.0, io.StringIO()
    progress = Progress(rounds=10, num_trials=1, name_width=12, out=out, clock=lambda: now)
    shown = []
    for second in range(34):
        now = float(second)
        progress.on_step_end(second, [])
        if len(out.getvalue().splitlines()) > len(shown):
            shown.append(second)
    assert shown == [3, 18, 33]


def test_the_table_fits_the_screen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shutil.get_terminal_size", lambda: os.terminal_size((80, 10)))
    out = Terminal()
    progress = Progress(rounds=10, num_trials=40, name_width=12, out=out)
    for number in range(40):
        progress.on_trial_start(1, [], FakeTrial(f"bippo-seed{number}"))
    shown = screen(out.getvalue())
    assert len(shown) == 9 and max(map(len, shown)) < 80
    assert shown[-3] == "  and 34 more" and shown[-2].startswith("trials 0/40 done")
    assert shown[-1].startswith("waiting for round 0")
    progress.close()
    assert screen(out.getvalue()) == []


def test_a_study_in_which_nothing_moves_says_what_it_waits_for() -> None:
    now, out = 0.0, io.StringIO()
    progress = Progress(rounds=10, num_trials=2, name_width=12, out=out, clock=lambda: now)

    def line_at(seconds: float) -> str:
        nonlocal now
        now = seconds
        progress.on_step_end(1, [])
        return out.getvalue().splitlines()[-1]

    assert line_at(119.0).endswith("waiting for a worker to start")
    assert line_at(140.0).endswith("waiting for a worker to start, nothing new for 2:20")
    trial = FakeTrial("bippo-seed7")
    progress.on_trial_start(1, [], trial)
    assert line_at(200.0).endswith("waiting for round 0, in which all 7 clients train")
    progress.on_trial_result(2, [], trial, result(3))
    assert line_at(300.0).endswith("left")
    assert line_at(320.0).endswith("waiting for the next round, nothing new for 2:00")
