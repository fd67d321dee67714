"""Resuming an interrupted study, or running a finished one for more rounds: which trials are left, and from where."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from experiments.results.checkpoints import finished, newest_checkpoint, truncate_to_checkpoint
from experiments.results.run_info import read_run_info
from experiments.study.asha_journal import stopped_trials
from experiments.study.recorded_study import recorded_study
from experiments.study.settings import churn_schedule
from experiments.study.study import Study
from experiments.study.transfer import check_unchanged


def study_to_resume(results_dir: Path, *, rounds: int | None = None, **arguments: Any) -> Study:
    """Returns the study in ``results_dir`` with the trials that are not finished.

    Args:
        results_dir: Folder of the study.
        rounds: New number of FL rounds per trial; None for the recorded one.
        **arguments: Of ``recorded_study``.

    Raises:
        ValueError: If it is no study, something that rows depend on has changed, or it cannot have so many rounds.
    """
    study = recorded_study(results_dir, **arguments)
    if rounds is not None and rounds != study.rounds:
        _check_extension(study, rounds)
        study = replace(study, rounds=rounds)
    stopped = stopped_trials(results_dir)
    trials_left = tuple(
        trial
        for trial in study.all_trials
        if not finished(results_dir / trial.name, stopped.get(trial.name, study.rounds))
    )
    for trial in trials_left:
        _check_no_link(results_dir, trial.name)
        if trial.init_from and newest_checkpoint(results_dir / trial.name) is None:
            check_unchanged(trial.init_from, trial.init_sha256)
    return replace(study, trials_left=trials_left)


def ready(study: Study) -> Study:
    """Truncates every unfinished trial to the checkpoint that it resumes from. Changes files: call it after all checks.

    No trial resumes from a checkpoint after the last recorded round, in which the episode is over. ``notes`` has the
    trials that start over although they have a checkpoint.
    """
    info = read_run_info(study.results_dir)
    assert info is not None, "``study_to_resume`` has read it"
    starts = [(trial, truncate_to_checkpoint(study.results_dir / trial.name, info.rounds)) for trial in study.trials]
    return replace(
        study,
        trials_left=tuple(replace(trial, resume_from=start.checkpoint) for trial, start in starts),
        notes=tuple(f"{trial.name} starts over: {start.why_over}" for trial, start in starts if start.why_over),
    )


def _check_no_link(results_dir: Path, trial: str) -> None:
    """Refuses a trial's folder that is a link, since resuming a trial removes files."""
    folder = results_dir / trial
    if folder.resolve() != results_dir.resolve() / trial:
        raise ValueError(f"{folder} is a link to {folder.resolve()}; put the trial's folder itself there")


def _check_extension(study: Study, rounds: int) -> None:
    """Refuses a number of rounds that would have changed the rounds so far."""
    if rounds < study.rounds:
        raise ValueError(
            f"--rounds {rounds} is less than the {study.rounds} of {study.results_dir}; give at least as many"
        )
    why = None
    if study.search:
        why = "which settings a search stops depends on the number of rounds"
    elif study.scenario.churn:
        why = f"when clients of {study.scenario.name} join and leave depends on the number of rounds"
    elif _stays(study, study.rounds) != _stays(study, rounds):
        why = f"clients that join after round {study.rounds} have policies from the start"
    if why:
        raise ValueError(f"--rounds {rounds} makes this another study: {why}; run it without --resume, in a new folder")


def _stays(study: Study, rounds: int) -> list[int]:
    return churn_schedule(study.federation, rounds).num_stays.tolist()
