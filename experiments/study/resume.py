"""Going on with an interrupted study: what it was, what has changed since, and what is left to do."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from experiments.results.checkpoints import finished, make_ready, newest_checkpoint
from experiments.results.naming import look_up
from experiments.results.run_info import (
    RUN_FILE,
    as_written,
    churn_traces,
    package_versions,
    read_churn_traces,
    read_packages,
    read_run_info,
)
from experiments.scenarios import SCENARIOS
from experiments.study.asha_journal import stopped_trials
from experiments.study.search import from_text
from experiments.study.study import Study
from experiments.study.transfer import PolicySource, check_unchanged


def study_to_resume(
    results_dir: Path,
    *,
    data_dir: str | None = None,
    parallel_trials: int | None = None,
    checkpoint_every: int = 10,
    execution: Mapping[str, Any] | None = None,
    force: bool = False,
) -> Study:
    """The study in `results_dir`, with the trials that are not finished.

    Args:
        results_dir: Folder of the interrupted study.
        data_dir: Where the data lies now, if it has moved.
        parallel_trials: As for a new study.
        checkpoint_every: As for a new study.
        execution: Likewise; on CPU rows do not depend on it.
        force: Go on although the scenario, a churn trace or a package has changed.

    Raises:
        ValueError: If it is no study, or something it depends on has changed.
    """
    info = read_run_info(results_dir)
    if info is None:
        raise ValueError(f"nothing to resume: {results_dir} has no readable {RUN_FILE}; name a folder a study wrote")
    study = Study(
        scenario=look_up("scenario", info.scenario, SCENARIOS),
        methods=tuple(info.methods),
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
        execution=execution or {},
        command=info.command,
        init_from=info.init_from,
        sources={name: PolicySource(**source) for name, source in info.init_policies.items()},
    )
    differences = changes(dict(info.federation), as_written(study.federation), "scenario")
    differences += changes(read_packages(results_dir), package_versions(), "package")
    differences += changes(read_churn_traces(results_dir), churn_traces(study.run_info), "sha256 of churn trace")
    if differences and not force:
        raise ValueError(
            f"{results_dir} was made with something else: {'; '.join(differences)}. Rows before and after would not "
            "belong together; go on all the same with --force"
        )
    stopped = stopped_trials(results_dir)
    left = [
        start
        for start in study.all_starts
        if not finished(results_dir / start.name, stopped.get(start.name, study.rounds))
    ]
    for start in left:
        if start.init_from and newest_checkpoint(results_dir / start.name) is None:
            check_unchanged(start.init_from, start.init_sha256)
    return replace(study, starts=tuple(left))


def ready(study: Study) -> Study:
    """Cut every unfinished trial back to its last complete checkpoint. Changes files; call it when all is checked."""
    starts = [replace(start, resume_from=make_ready(study.results_dir / start.name)) for start in study.trial_starts]
    return replace(study, starts=tuple(starts))


def changes(before: Mapping[str, Any], now: Mapping[str, Any], what: str) -> list[str]:
    """What differs, a phrase each; where the data lies does not matter."""
    keys = sorted((before.keys() | now.keys()) - {"data_dir"})
    return [
        f"{what} {key} was {before.get(key, 'not set')}, is {now.get(key, 'not set')}"
        for key in keys
        if before.get(key) != now.get(key)
    ]
