"""Going on with an interrupted study: what it was, what has changed since, and what is left to do."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from experiments.checkpoints import finished, make_ready
from experiments.naming import look_up
from experiments.provenance import RUN_FILE, package_versions, read_packages, read_run_info
from experiments.scenarios import SCENARIOS
from experiments.study import Study, TrialStart


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
        force: Go on although the scenario or a package has changed.

    Raises:
        ValueError: If it is no study, was a search, or something it depends on has changed.
    """
    info = read_run_info(results_dir)
    if info is None:
        raise ValueError(f"nothing to resume: {results_dir} has no readable {RUN_FILE}; name a folder a study wrote")
    if info.search:
        raise ValueError("a search cannot be resumed: what ASHA stopped depends on what ran beside it; run it again")
    study = Study(
        scenario=look_up("scenario", info.scenario, SCENARIOS),
        methods=tuple(info.methods),
        seeds=tuple(info.seeds),
        rounds=info.rounds,
        results_dir=results_dir,
        data_dir=data_dir or info.federation.get("data_dir"),
        settings=info.settings,
        parallel_trials=parallel_trials,
        checkpoint_every=checkpoint_every,
        execution=execution or {},
        command=info.command,
    )
    differences = changes(dict(info.federation), dict(study.federation), "scenario")
    differences += changes(read_packages(results_dir), package_versions(), "package")
    if differences and not force:
        raise ValueError(
            f"{results_dir} was made with something else: {'; '.join(differences)}. Rows before and after would not "
            "belong together; go on all the same with --force"
        )
    left = [
        TrialStart(method, seed)
        for method in study.methods
        for seed in study.seeds
        if not finished(results_dir / TrialStart(method, seed).name, study.rounds)
    ]
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
