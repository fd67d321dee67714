"""When trials start and stop: one after the other, and in a search by ASHA, which a resumed search continues."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ray.tune.schedulers import ASHAScheduler, FIFOScheduler, TrialScheduler
from ray.tune.stopper import Stopper

from experiments.study.asha_journal import Decision, append_decision, read_decisions
from experiments.study.row_callback import EPISODE_OVER
from experiments.study.study import Trial

_ROUND = "training_iteration"


def rungs(max_rounds: int) -> list[int]:
    """Returns the rounds after which ASHA compares the trials of a search with ``max_rounds`` rounds."""
    return [_grace_period(max_rounds) * 2**k for k in range(max_rounds.bit_length())]


def _grace_period(max_rounds: int) -> int:
    return max(1, min(20, max_rounds // 4))


@dataclass(frozen=True)
class _NamedTrial:
    """What ASHA reads of a trial. Tune's ids differ from run to run; names do not."""

    trial_id: str


class StudyEnd(Stopper):
    """Stops a trial when no round can follow, and all trials once the disk is full.

    Args:
        is_disk_full: Returns whether a trial has failed because nothing can be written.
    """

    def __init__(self, is_disk_full: Callable[[], bool]) -> None:
        self._is_disk_full = is_disk_full

    def __call__(self, trial_id: str, result: dict[str, Any]) -> bool:
        """Returns whether the trial ends with this result."""
        return bool(result[EPISODE_OVER])

    def stop_all(self) -> bool:
        """Returns whether all trials end."""
        return self._is_disk_full()


class InTurn(FIFOScheduler):
    """Lets Tune choose which pending trial to start.

    FIFO would choose the first, even if its process is about to start: Tune then gives it a process that has become
    free, and ends its own.
    """

    def choose_trial_to_run(self, tune_controller: Any) -> None:
        """Overrides FIFO's to choose none."""
        return None


class SeedwiseASHA(InTurn):
    """One ASHA per method and seed, so that a setting competes with other settings on the same data only.

    Seeds draw different samples, and some are harder: one ASHA for all would stop the hard seeds, not the bad settings.
    Every decision is appended to a journal. If it exists already, its decisions are replayed first, and a trial that
    was stopped is stopped again.

    Args:
        metric: Key of the result to compare; higher is better.
        max_rounds: Rounds of a full trial.
        journal: File of the decisions.
    """

    def __init__(self, metric: str, max_rounds: int, journal: Path) -> None:
        super().__init__()
        self._metric, self._journal = metric, journal
        self._arguments: dict[str, Any] = {
            "time_attr": _ROUND,
            "metric": metric,
            "mode": "max",
            "max_t": max_rounds,
            "grace_period": _grace_period(max_rounds),
            "reduction_factor": 2,
        }
        self._rungs = rungs(max_rounds)
        self._groups: dict[tuple[str, int], ASHAScheduler] = {}
        self._stopped: dict[str, int] = {}
        self._known: dict[tuple[str, int], None] = {}
        for decision in read_decisions(journal):
            self._replay(decision)

    def on_trial_add(self, tune_controller: Any, trial: Any) -> None:
        """Passes the trial to the ASHA of its method and seed."""
        self._group(trial).on_trial_add(tune_controller, _named(trial))

    def on_trial_result(self, tune_controller: Any, trial: Any, result: dict[str, Any]) -> str:
        """Returns whether the trial goes on; records the decision where ASHA decides."""
        name, iteration = _trial_of_study(trial).name, result[_ROUND]
        if iteration >= self._stopped.get(name, iteration + 1):
            return TrialScheduler.STOP
        action = self._group(trial).on_trial_result(tune_controller, _named(trial), result)
        if iteration in self._rungs and (name, iteration) not in self._known:
            self._record(trial, result, stop=action == TrialScheduler.STOP)
        return action

    def on_trial_complete(self, tune_controller: Any, trial: Any, result: dict[str, Any]) -> None:
        """Passes the trial's end to the ASHA of its method and seed."""
        self._group(trial).on_trial_complete(tune_controller, _named(trial), result)

    def on_trial_remove(self, tune_controller: Any, trial: Any) -> None:
        """Passes the trial's removal to the ASHA of its method and seed."""
        self._group(trial).on_trial_remove(tune_controller, _named(trial))

    def _record(self, trial: Any, result: dict[str, Any], stop: bool) -> None:
        ours = _trial_of_study(trial)
        decision = Decision(ours.name, ours.method, ours.seed, result[_ROUND], float(result[self._metric]), stop)
        self._known[decision.trial, decision.iteration] = None
        append_decision(self._journal, decision)

    def _replay(self, decision: Decision) -> None:
        """Gives ASHA a recorded result again; the recorded decision stands."""
        group, trial = self._group_of(decision.method, decision.seed), _NamedTrial(decision.trial)
        group.on_trial_add(None, trial)
        group.on_trial_result(None, trial, {_ROUND: decision.iteration, self._metric: decision.value})
        self._known[decision.trial, decision.iteration] = None
        if decision.stop:
            self._stopped[decision.trial] = decision.iteration

    def _group(self, trial: Any) -> ASHAScheduler:
        ours = _trial_of_study(trial)
        return self._group_of(ours.method, ours.seed)

    def _group_of(self, method: str, seed: int) -> ASHAScheduler:
        if (method, seed) not in self._groups:
            self._groups[method, seed] = ASHAScheduler(**self._arguments)
        return self._groups[method, seed]


def _trial_of_study(trial: Any) -> Trial:
    return Trial(**trial.config["trial"])


def _named(trial: Any) -> _NamedTrial:
    return _NamedTrial(_trial_of_study(trial).name)
