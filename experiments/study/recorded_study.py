"""A study as recorded in its run.json, to be resumed or repeated, and what has changed since."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from envs.imports import check_import
from experiments.custom_methods import check_method
from experiments.results.naming import look_up
from experiments.results.provenance import PROJECT, git_commit, package_versions
from experiments.results.run_info import RUN_FILE, RunInfo, as_written, churn_traces, load_run_info
from experiments.results.setting_text import from_text
from experiments.scenarios import SCENARIOS
from experiments.study.custom_modules import custom_modules
from experiments.study.recorded_methods import method_settings
from experiments.study.results_folder import new_results_dir
from experiments.study.search import check_recorded
from experiments.study.study import Study, study_name
from experiments.study.transfer import check_unchanged


def recorded_study(
    record: Path,
    *,
    data_dir: str | None = None,
    force: bool = False,
    trust_code: bool = False,
    **where_and_who: Any,
) -> Study:
    """Returns a recorded study, from its beginning, with the folder ``record``.

    Args:
        record: Folder of the study, or its run.json.
        data_dir: Folder of the data, if it has moved.
        force: Ignores that the scenario, a churn trace, a package, a method's settings or a custom module has changed.
        trust_code: Allows custom code that the record names.
        **where_and_who: Fields of ``Study`` that are not recorded, since rows do not depend on them.

    Raises:
        ValueError: If there is no readable record, it names custom code that is not trusted, or something that rows
            depend on has changed.
    """
    try:
        info = load_run_info(record)
    except FileNotFoundError:
        problem = f"has no {RUN_FILE}" if record.exists() else "is not there"
        raise ValueError(f"{record} {problem}; name a folder a study wrote{_studies_in(record)}") from None
    study = replace(_study_of(info, record), **where_and_who)
    if data_dir:
        study = replace(study, data_dir=data_dir)
    if study.custom_code and not trust_code:
        raise ValueError(
            f"{record} names code that would be imported and run: {', '.join(study.custom_code)}. "
            "If you know that code, add --trust-code"
        )
    differences = _differences(info, study)
    if differences and not force:
        raise ValueError(
            f"{record} was made with something else: {'; '.join(differences)}. New rows would not belong to the "
            "old ones; --force runs the study all the same"
        )
    made_with = [f"the record was made with something else: {'; '.join(differences)}"] if differences else []
    return replace(study, notes=(*made_with, *_other_commit(info)))


def _studies_in(folder: Path, most: int = 3) -> str:
    """Returns ``, such as results/a or results/b``, the studies in a folder that were started last; empty if none."""
    records = sorted(folder.glob(f"*/{RUN_FILE}"), key=lambda path: path.stat().st_mtime, reverse=True)
    return ", such as " + " or ".join(str(record.parent) for record in records[:most]) if records else ""


def _study_of(info: RunInfo, record: Path) -> Study:
    """Returns the study of a record as if it had been typed, and imports no code that it names.

    Raises:
        ValueError: If it holds what nobody could have typed.
    """
    draws = from_text(info.draws)
    check_recorded(info.settings, info.search, draws)
    for method in info.methods:
        check_method(method)
    for name in info.callbacks:
        check_import("--callbacks", name)
    return Study(
        scenario=look_up("scenario", info.scenario, SCENARIOS),
        methods=tuple(info.methods),
        seeds=tuple(info.seeds),
        rounds=info.rounds,
        results_dir=record,
        data_dir=info.federation.get("data_dir"),
        settings=info.settings,
        callbacks=tuple(info.callbacks),
        search=info.search,
        num_samples=info.num_samples,
        recorded_draws=draws or None,
        command=info.command,
        init_from=info.init_from,
        initial_policies=info.init_policies,
    )


def study_to_repeat(record: Path, results_dir: Path | None, command: str, **arguments: Any) -> Study:
    """Returns a new study that repeats a recorded one.

    Args:
        record: The run.json, or its folder.
        results_dir: As in ``new_results_dir``.
        command: The command line of the new study.
        **arguments: Of ``recorded_study``.

    Raises:
        ValueError: As ``recorded_study``, and if policies that the study started from have changed.
    """
    study = recorded_study(record, **arguments)
    for source in study.initial_policies.values():
        check_unchanged(source.checkpoint, source.sha256)
    folder = new_results_dir(results_dir, study_name(study.scenario, study.settings))
    return replace(study, results_dir=folder, command=command)


def _differences(info: RunInfo, study: Study) -> list[str]:
    """Returns a phrase for everything that rows depend on and that has changed, of code as far as it was recorded."""
    packages = package_versions()
    if PROJECT not in info.packages:
        packages.pop(PROJECT, None)
    return [
        *_changes(info.federation, as_written(study.federation), "scenario"),
        *_changes(info.packages, packages, "package"),
        *_changes(info.churn_traces, churn_traces(study.run_info), "sha256 of churn trace"),
        *_changes(info.custom_modules, custom_modules(study) if info.custom_modules else {}, "sha256 of module"),
        *_changed_methods(info, study),
    ]


def _changed_methods(info: RunInfo, study: Study) -> list[str]:
    """Returns a phrase for each initial setting of a method that has changed; defaults of new ones change nothing."""
    now = method_settings(study.methods) if info.method_settings else {}
    changes = []
    for method, before in info.method_settings.items():
        changes += _changes(before, {key: value for key, value in now.get(method, {}).items() if key in before}, method)
    return changes


def _other_commit(info: RunInfo) -> list[str]:
    """Returns a note if the commit is another one, which may or may not give other rows."""
    before, now = (info.resumed[-1] if info.resumed else {"commit": info.commit}).get("commit"), git_commit()
    if not (before and now) or before == now:
        return []
    return [f"the study was run by commit {before}, this is {now}, which may give other rows"]


def _changes(before: Mapping[str, Any], now: Mapping[str, Any], what: str) -> list[str]:
    """Returns a phrase for each difference, but for the folder of the data."""
    keys = sorted((before.keys() | now.keys()) - {"data_dir"})
    return [
        f"{what} {key} was {before.get(key, 'not set')}, is {now.get(key, 'not set')}"
        for key in keys
        if before.get(key) != now.get(key)
    ]
