"""Studies on disk: where they are, their rows, and their records in run.json."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from envs.checks import printable
from experiments.results.collection import ROUNDS_FILE, is_collection, read_collection
from experiments.results.files import files_named
from experiments.results.naming import look_up, pluralize
from experiments.results.rows import rows_files, rows_of
from experiments.results.run_info import RUN_FILE, RunInfo, load_run_info, parse_run_info
from experiments.scenarios import SCENARIOS


@dataclass(frozen=True)
class FinishedStudy:
    """One study: its rows, and the record in run.json or, where that cannot be read, one that follows from the rows."""

    folder: Path
    rows: pd.DataFrame
    info: RunInfo
    is_recorded: bool = True  #: False where ``info`` follows from the rows.

    @property
    def trials(self) -> set[tuple[str, int]]:
        """The method and seed of each trial."""
        pairs = self.rows[["method", "seed"]].drop_duplicates()
        return {(str(method), int(seed)) for method, seed in pairs.itertuples(index=False)}


def read_studies(folder: Path) -> list[FinishedStudy]:
    """Returns the studies in a folder and below it: each has the rows below its run.json and below no other one.

    Rows without a run.json above them are taken for those of one study without a record. Of collected studies, in
    COLLECTION, one is named as COLLECTION/STUDY.

    Raises:
        ValueError: If there is no study, or one cannot be read.
    """
    if folder.is_file():
        around = next((parent for parent in folder.parents if (parent / RUN_FILE).exists()), folder.parent)
        raise ValueError(f"{folder} is a file; name the results folder around it: {around}")
    if is_collection(folder.parent) and not folder.exists():
        return _collected(folder.parent, only=folder.name)
    collections = [path.parent for path in sorted(files_named(folder, ROUNDS_FILE))]
    collected = [study for collection in collections for study in _collected(collection)]
    paths_of: dict[Path, list[Path]] = {record.parent: [] for record in sorted(files_named(folder, RUN_FILE))}
    for path in rows_files(folder):
        around = next((parent for parent in path.parents if parent in paths_of), folder)
        paths_of.setdefault(around, []).append(path)
    if not collected and not paths_of:
        paths_of = {folder: []}
    return [*collected, *(_study(around, paths) for around, paths in paths_of.items())]


def _collected(folder: Path, only: str | None = None) -> list[FinishedStudy]:
    """Returns the studies of a collection, or the named one."""
    return [
        FinishedStudy(
            folder / name, study.rows, parse_run_info(json.dumps(study.record), f"the record of {folder / name}")
        )
        for name, study in read_collection(folder, only).items()
    ]


def _study(folder: Path, paths: Sequence[Path]) -> FinishedStudy:
    rows = rows_of(folder, paths)
    scenarios = sorted(rows["scenario"].unique())
    if len(scenarios) > 1:
        raise ValueError(
            f"{folder} holds rows of {' and '.join(scenarios)}, which do not compare; report them one by one"
        )
    try:
        info = load_run_info(folder)
    except (FileNotFoundError, ValueError) as error:
        if isinstance(error, ValueError):
            print(f"warning: {printable(error)}; what was asked for is taken from the rows", file=sys.stderr)
        return FinishedStudy(folder, rows, _info_of(rows), is_recorded=False)
    _check_rows_are_of(folder, rows, info)
    return FinishedStudy(folder, rows, info)


def _info_of(rows: pd.DataFrame) -> RunInfo:
    """Returns a record of what rows show: their methods and seeds, and the rounds of the longest trial."""
    scenario = str(rows["scenario"].iloc[0])
    target = look_up("scenario", scenario, SCENARIOS).target_accuracy
    methods, seeds = (sorted(rows[name].unique().tolist()) for name in ("method", "seed"))
    return RunInfo(scenario, target, int(rows["round"].max()), {}, methods, seeds)


def _check_rows_are_of(folder: Path, rows: pd.DataFrame, info: RunInfo) -> None:
    """Raises ValueError if rows and record contradict each other."""
    scenario = str(rows["scenario"].iloc[0])
    if scenario != info.scenario:
        raise ValueError(f"{folder} holds rows of {scenario}, but its {RUN_FILE} is of {info.scenario}")
    record = info.federation_record
    last = max(int(max(clients, default=0)) for clients in rows["clients"])
    if record is not None and last >= len(record.clients):
        raise ValueError(
            f"{folder} holds rows with client {last}, but its {RUN_FILE} has {pluralize(len(record.clients), 'client')}"
        )
