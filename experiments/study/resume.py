"""Resuming an interrupted study: what it was, what has changed since, and which trials are left."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from envs.execution import Execution
from experiments.results.checkpoints import finished, make_ready, newest_checkpoint
from experiments.results.literals import from_text
from experiments.results.naming import look_up
from experiments.results.provenance import package_versions
from experiments.results.run_info import RUN_FILE, RunInfo, as_written, churn_traces, read_run_info
from experiments.scenarios import SCENARIOS
from experiments.study.asha_journal import stopped_trials
from experiments.study.study import Study
from experiments.study.transfer import check_unchanged


def study_to_resume(
    results_dir: Path,
    *,
    data_dir: str | None = None,
    parallel_trials: int | None = None,
    checkpoint_every: int = 10,
    execution: Execution | None = None,
    force: bool = False,
) -> Study:
    """The study in ``results_dir``, with the trials that are not finished.

    Args:
        results_dir: Folder of the interrupted study.
        data_dir: Where the data lies now, if it has moved.
        parallel_trials: As for a new study.
        checkpoint_every: As for a new study.
        execution: Likewise; on CPU rows do not depend on it.
        force: Resume although the scenario, a churn trace or a package has changed.

    Raises:
        ValueError: If it is no study, or something it depends on has changed.
    """
    info = read_run_info(results_dir)
    if info is None:
        raise ValueError(f"nothing to resume: {results_dir} has no readable {RUN_FILE}; name a folder a study wrote")
    study = Study(
        scenario=look_up("scenario", info.scenario, SCENARIOS),
        methods=tuple(info.own_methods.get(name, name) for name in info.methods),
        seeds=tuple(info.seeds),
        rounds=info.rounds,
        results_dir=results_dir,
        data_dir=data_dir or info.federation.get("data_dir"),
        settings=info.settings,
        search=info.search,
        num_samples=info.num_samples,
        recorded_draws=from_text(info.draws) if info.draws else None,
        parallel_trials=parallel_trials,
        checkpoint_every=checkpoint_every,
        execution=execution or Execution(),
        command=info.command,
        init_from=info.init_from,
        sources=info.init_policies,
    )
    differences = _differences(info, study)
    if differences and not force:
        raise ValueError(
            f"{results_dir} was made with something else: {'; '.join(differences)}. Rows before and after would not "
            "belong together; resume all the same with --force"
        )
    return _with_trials_left(study)


def _differences(info: RunInfo, study: Study) -> list[str]:
    return [
        *changes(info.federation, as_written(study.federation), "scenario"),
        *changes(info.packages, package_versions(), "package"),
        *changes(info.churn_traces, churn_traces(study.run_info), "sha256 of churn trace"),
    ]


def _with_trials_left(study: Study) -> Study:
    stopped = stopped_trials(study.results_dir)
    trials_left = tuple(
        trial
        for trial in study.all_trials
        if not finished(study.results_dir / trial.name, stopped.get(trial.name, study.rounds))
    )
    for trial in trials_left:
        if trial.init_from and newest_checkpoint(study.results_dir / trial.name) is None:
            check_unchanged(trial.init_from, trial.init_sha256)
    return replace(study, trials_left=trials_left)


def ready(study: Study) -> Study:
    """Cuts every unfinished trial back to its last complete checkpoint. Changes files; call it when all is checked."""
    trials = [replace(trial, resume_from=make_ready(study.results_dir / trial.name)) for trial in study.trials]
    return replace(study, trials_left=tuple(trials))


def changes(before: Mapping[str, Any], now: Mapping[str, Any], what: str) -> list[str]:
    """What differs, a phrase each; where the data lies does not matter."""
    keys = sorted((before.keys() | now.keys()) - {"data_dir"})
    return [
        f"{what} {key} was {before.get(key, 'not set')}, is {now.get(key, 'not set')}"
        for key in keys
        if before.get(key) != now.get(key)
    ]
