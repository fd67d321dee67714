"""What a study shows while it runs: a small live table on a terminal, a line now and then elsewhere."""

from __future__ import annotations

import math
import shutil
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TextIO

from ray import tune

from experiments.results.naming import pluralize
from experiments.study.failure import stopped_by_full_disk
from experiments.study.settings import churn_schedule, split_settings

_TERMINAL_INTERVAL_S = 0.5
_PLAIN_INTERVAL_S = 15.0
_FIRST_INTERVAL_S = 3.0
_STARTING = "starting"
_WORKER = "a worker to start"
_NEXT_ROUND = "the next round"
#: After so many seconds without a start, a round or an end, the line about the study shows it.
_QUIET_S = 120.0


@dataclass
class TrialProgress:
    """Progress of one trial."""

    name: str
    round: int = 0
    accuracy: float = 0.0
    energy_total_j: float = 0.0
    state: str = _STARTING
    waiting_for: str = ""
    first_round: int = 0  #: Of this run, which may resume an earlier one.


def trial_line(trial: TrialProgress, rounds: int, width: int) -> str:
    """Returns, for example, ``bippo-seed7   round  41/100   accuracy 0.812   151.7 J``, or the state before a round."""
    if not trial.round:
        waiting = f"waiting for {trial.waiting_for}" if trial.state == _STARTING else trial.state
        return f"  {trial.name:<{width}}   {waiting}"
    progress = f"round {trial.round:>{len(str(rounds))}}/{rounds}"
    numbers = f"{progress}   accuracy {trial.accuracy:.3f}   {trial.energy_total_j:>8.4g} J"
    return f"  {trial.name:<{width}}   {numbers}{'' if trial.state == 'running' else f'   {trial.state}'}"


def overall_line(
    done_rounds: int,
    all_rounds: int,
    finished: int,
    num_trials: int,
    elapsed_s: float,
    waiting_for: str = "",
    until_first_row: tuple[int, float] = (0, 0.0),
) -> str:
    """Returns, for example, ``trials 2/6 done   rounds 312/600 (52 %)   elapsed 0:51   about 0:47 left``.

    While no trial is running it ends with what they wait for. The time left is estimated without the rounds and seconds
    ``until_first_row``, of an earlier run and of the start.
    """
    share, rounds, seconds = done_rounds / all_rounds, done_rounds - until_first_row[0], elapsed_s - until_first_row[1]
    is_known = rounds > 0.02 * all_rounds and seconds > 0.0
    left = f"about {_clock(seconds * (all_rounds - done_rounds) / rounds)} left" if is_known else "estimating time left"
    left = f"waiting for {waiting_for}" if waiting_for else left
    return (
        f"trials {finished}/{num_trials} done   rounds {done_rounds}/{all_rounds} ({100 * share:.0f} %)   "
        f"elapsed {_clock(elapsed_s)}   {left}"
    )


def before_first_row(config: Mapping[str, Any]) -> str:
    """Returns what a trial does first, such as ``round 0, in which all 20 clients train``."""
    trial = config["trial"]
    if trial["resume_from"]:
        return "its next round"
    federation = {**config["federation"], **split_settings(trial["search"])[1]}
    live = churn_schedule(federation, config["rounds"]).live_at_start
    return f"round 0, in which all {pluralize(len(live), 'client')} train"


def _clock(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"


class Progress(tune.Callback):
    """Shows trials while Tune runs them.

    Prints one line for each finished trial. On a terminal, running trials are redrawn below in place; elsewhere a line
    about the whole study is printed after 3 s and then every 15 s.

    Attributes:
        warmup_energy_j: Energy of round 0, in joules, by trial.
        disk_full: Whether a trial has failed because the disk is full.
        trials: Progress by trial.
    """

    def __init__(
        self, rounds: int, num_trials: int, name_width: int, out: TextIO, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.warmup_energy_j: dict[str, float] = {}
        self.disk_full = False
        self.trials: dict[str, TrialProgress] = {}
        self._tune_trials: list[Any] = []
        self._rounds, self._num_trials = rounds, num_trials
        self._out, self._clock, self._live = out, clock, out.isatty()
        self._started = self._drawn_at = self._moved_at = clock()
        self._first_row_s = math.inf
        self._lines_drawn = 0
        self._interval_s = _TERMINAL_INTERVAL_S if self._live else _FIRST_INTERVAL_S
        self._width = name_width

    def on_trial_start(self, iteration: int, trials: Sequence[Any], trial: Any, **info: Any) -> None:
        """Shows the trial, whose worker has started and loaded the data, as waiting for its first row."""
        self._of(trial).waiting_for = before_first_row(trial.config)
        self._tune_trials.append(trial)
        if self._live:
            self._draw()

    def on_trial_result(
        self, iteration: int, trials: Sequence[Any], trial: Any, result: dict[str, Any], **info: Any
    ) -> None:
        """Keeps the trial's numbers of the round."""
        shown, name = self._of(trial), str(trial)
        if not shown.round:
            shown.first_round = int(result["round"])
            self._first_row_s = min(self._first_row_s, self._clock() - self._started)
        shown.round, shown.state = int(result["round"]), "running"
        shown.accuracy, shown.energy_total_j = float(result["mean_accuracy"]), float(result["energy_total_j"])
        self.warmup_energy_j[name] = float(result["warmup_energy_j"])
        self._say(f"{name}: {warning}" for warning in result.get("meter_warnings", ()))

    def on_trial_complete(self, iteration: int, trials: Sequence[Any], trial: Any, **info: Any) -> None:
        """Shows that the trial is done, or was stopped early."""
        shown = self._of(trial)
        self._finish(shown, "done" if shown.round >= self._rounds else "stopped early")

    def on_trial_error(self, iteration: int, trials: Sequence[Any], trial: Any, **info: Any) -> None:
        """Shows that the trial has failed, and notices a full disk."""
        self.disk_full = self.disk_full or stopped_by_full_disk(trial)
        self._finish(self._of(trial), "FAILED")

    def on_step_end(self, iteration: int, trials: Sequence[Any], **info: Any) -> None:
        """Draws again after the interval."""
        if self._clock() - self._drawn_at >= self._interval_s:
            self._draw()

    def __getstate__(self) -> dict[str, Any]:
        """Overrides pickling, which Tune does: neither a stream nor live trials can be pickled."""
        return {**self.__dict__, "_out": None, "_tune_trials": []}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update({**state, "_out": sys.stdout})

    def keep_errors(self) -> None:
        """Copies the errors of failed trials to their folders, as Tune itself does now and then and at the end."""
        for trial in self._tune_trials:
            if trial.local_path and Path(trial.local_path).is_dir():
                shutil.copytree(trial.local_path, trial.storage.trial_fs_path, dirs_exist_ok=True)

    def close(self) -> None:
        """Removes the live table."""
        self._erase()
        self._out.flush()

    def _of(self, trial: Any) -> TrialProgress:
        """Returns the progress of a trial that has just changed."""
        self._moved_at = self._clock()
        return self.trials.setdefault(str(trial), TrialProgress(str(trial)))

    def _finish(self, trial: TrialProgress, state: str) -> None:
        trial.state = state
        self._say([trial_line(trial, self._rounds, self._width)])

    def _say(self, lines: Iterable[str]) -> None:
        """Prints lines that stay."""
        for line in lines:
            self._erase()
            self._print(line)
            if self._live:
                self._draw()

    def _draw(self) -> None:
        self._drawn_at = self._clock()
        overall = self._overall()
        if not self._live:
            self._interval_s = _PLAIN_INTERVAL_S
            self._print(overall)
            return
        running = [t for t in self.trials.values() if t.state in (_STARTING, "running")]
        columns, screen = shutil.get_terminal_size()
        wide = len(overall) >= columns
        last = [part.strip() for part in overall.rpartition("   ")[::2]] if wide else [overall]
        room = max(1, screen - 2 - len(last))  # lines that scrolled off cannot be erased
        lines = [trial_line(t, self._rounds, self._width) for t in running[:room]]
        lines += [f"  and {len(running) - room} more"] * (len(running) > room)
        lines += last
        self._erase()
        for line in lines:
            self._print(line[: columns - 1])
        self._lines_drawn = len(lines)

    def _overall(self) -> str:
        states = [trial.state for trial in self.trials.values()]
        finished = sum(state not in (_STARTING, "running") for state in states)
        ended = sum(self._rounds for state in states if state in ("FAILED", "stopped early"))
        going = sum(t.round for t in self.trials.values() if t.state in (_STARTING, "running", "done"))
        all_rounds = self._rounds * self._num_trials
        waiting = [trial.waiting_for for trial in self.trials.values() if trial.state == _STARTING] or [_WORKER]
        waiting_for = "" if "running" in states or finished == self._num_trials else waiting[0]
        elapsed_s, quiet_s = self._clock() - self._started, self._clock() - self._moved_at
        if quiet_s >= _QUIET_S:
            waiting_for = f"{waiting_for or _NEXT_ROUND}, nothing new for {_clock(quiet_s)}"
        before = sum(trial.first_round for trial in self.trials.values()), self._first_row_s
        return overall_line(ended + going, all_rounds, finished, self._num_trials, elapsed_s, waiting_for, before)

    def _erase(self) -> None:
        if self._lines_drawn:
            self._out.write(f"\x1b[{self._lines_drawn}A\x1b[J")
            self._lines_drawn = 0

    def _print(self, line: str) -> None:
        self._out.write(line + "\n")
        self._out.flush()
