"""One or more results folders of the same scenario as one: rows and what was asked for."""

from __future__ import annotations

import dataclasses
import itertools
import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import pandas as pd

from experiments.methods import is_reference
from experiments.report.churn_moments import Churn, find_churn
from experiments.results.collection import ROUNDS_FILE, Study, is_collection, read_collection, write_collection
from experiments.results.federation_record import FederationRecord
from experiments.results.files import files_named
from experiments.results.naming import look_up, pluralize, printable
from experiments.results.rows import rows_files, rows_of
from experiments.results.run_info import RUN_FILE, RunInfo, load_run_info, parse_run_info
from experiments.scenarios import SCENARIOS
from experiments.study.settings import ENV_PREFIX, split_settings

#: What methods are charged for asking clients; studies of different methods may differ in it.
_CHARGE = "probing_epochs"
#: Settings of a federation that do not change what is trained.
_NOT_COMPARED = ("data_dir", "device", "with_loss", "executor", _CHARGE)


@dataclass(frozen=True)
class Source:
    """One results folder; ``info`` is None where its run.json cannot be read."""

    folder: Path
    rows: pd.DataFrame
    info: RunInfo | None

    @property
    def trials(self) -> set[tuple[str, int]]:
        """Method and seed of each trial."""
        pairs = self.rows[["method", "seed"]].drop_duplicates()
        return {(str(method), int(seed)) for method, seed in pairs.itertuples(index=False)}

    @property
    def settings(self) -> dict[str, Any]:
        """``--set`` of the algorithm and of what its methods are charged for asking clients."""
        if self.info is None:
            return {}
        charge = {f"{ENV_PREFIX}{key}": value for key, value in self.info.federation.items() if key == _CHARGE}
        return {**split_settings(self.info.settings)[0], **charge}


@dataclass(frozen=True)
class Results:
    """Folders that may be compared with each other, in the order they were named."""

    sources: tuple[Source, ...]
    name: str = ""  #: Of the study, for headings; empty for that of the scenario or of custom data.
    other_target: float | None = None  #: In place of the target that the study has.

    @cached_property
    def rows(self) -> pd.DataFrame:
        """All rows, folder by folder."""
        return pd.concat([source.rows for source in self.sources], ignore_index=True)

    @cached_property
    def churn(self) -> Churn | None:
        """Who joins and leaves; None if no client does."""
        return find_churn(self.rows)

    @property
    def infos(self) -> list[RunInfo]:
        """Every run.json that can be read."""
        return [source.info for source in self.sources if source.info is not None]

    @property
    def folders(self) -> str:
        """Paths, for messages."""
        return ", ".join(str(source.folder) for source in self.sources)

    @property
    def scenario(self) -> str:
        """Name of the scenario."""
        return str(self.sources[0].rows["scenario"].iloc[0])

    @property
    def title(self) -> str:
        """Name of the study: as it is given, or of custom data, or of the scenario."""
        named = SCENARIOS.get(self.scenario)
        dataset = self.infos[0].federation.get("dataset") if self.infos else None
        is_custom = named is not None and dataset not in (None, named.federation["dataset"])
        return self.name or (str(dataset) if is_custom else self.scenario)

    @property
    def target(self) -> float:
        """Target accuracy, as it is given, from run.json or else from the named scenario."""
        if self.other_target is not None:
            return self.other_target
        if self.infos:
            return self.infos[0].target_accuracy
        return look_up("scenario", self.scenario, SCENARIOS).target_accuracy

    @property
    def rounds(self) -> int:
        """Rounds asked for, or else those of the longest trial."""
        return self.infos[0].rounds if self.infos else int(self.rows["round"].max())

    @property
    def methods(self) -> list[str]:
        """Methods in the order they were asked for; references last."""
        asked = [method for info in self.infos for method in info.methods]
        found = [str(method) for method in self.rows["method"].unique()]
        return sorted(dict.fromkeys([*asked, *found]), key=is_reference)

    @property
    def is_search(self) -> bool:
        """Whether settings were searched."""
        return any(info.search for info in self.infos)

    @property
    def is_pretrained(self) -> bool:
        """Whether policies started from a checkpoint."""
        return any(info.init_from for info in self.infos)

    @property
    def federation_record(self) -> FederationRecord | None:
        """The federation with its clients, from the first run.json that holds it."""
        return next((info.federation_record for info in self.infos if info.federation_record is not None), None)


def read_results(folders: Sequence[Path], name: str = "", target: float | None = None) -> Results:
    """Reads folders, and every study in a folder below them, and checks that all of them may be merged.

    Args:
        folders: Results folders, or collected studies.
        name: What to call the study in headings.
        target: Target accuracy, a share of 1, in place of that of the study.

    Raises:
        ValueError: If one holds no rows, if scenario, federation, target or rounds differ, if a method and seed is in
            two of them, or if a method has other settings in one than in the other.
    """
    sources = tuple(source for folder in folders for source in read_sources(folder))
    for source in sources[1:]:
        check_same(_facts(sources[0]), _facts(source), _cannot_be_merged(sources[0], source))
    for earlier, later in itertools.combinations(sources, 2):
        for method, seed in sorted(earlier.trials & later.trials)[:1]:
            raise ValueError(
                f"{method} with seed {seed} is in {earlier.folder} and in {later.folder}; a trial counts once, so move "
                "one of its folders away"
            )
        check_same_settings(earlier, later, _cannot_be_merged(earlier, later))
    return Results(sources, name, target)


def collect(folders: Sequence[Path], output: Path) -> Results:
    """Writes all studies in these folders to two files in ``output``; returns them.

    Where the data lay is left out of their records.

    Raises:
        ValueError: If a study has no record, is a search, or has the name of another one.
    """
    sources = tuple(source for folder in folders for source in read_sources(folder))
    studies: dict[str, Study] = {}
    for source in sources:
        name = source.folder.resolve().name
        if source.info is None or source.info.search:
            what = "has no readable run.json" if source.info is None else "is a search"
            raise ValueError(f"{source.folder} {what}; only studies with a record and without a search are collected")
        if name in studies:
            raise ValueError(f"two of the studies are called {name}; rename the folder of one of them")
        record = dataclasses.asdict(source.info)
        record["federation"] = {key: value for key, value in source.info.federation.items() if key != "data_dir"}
        studies[name] = Study(source.rows, record)
    write_collection(output, studies)
    return Results(sources)


def _cannot_be_merged(first: Source, second: Source) -> str:
    return f"{first.folder} and {second.folder} cannot be merged, report them one by one"


def read_sources(folder: Path) -> list[Source]:
    """The studies in a folder and below it: each has the rows below its run.json that are not below another one.

    Rows that no run.json is above of are taken for those of one study without a record. Of collected studies, in
    COLLECTION, one is named as COLLECTION/STUDY.
    """
    if folder.is_file():
        study = next((parent for parent in folder.parents if (parent / RUN_FILE).exists()), folder.parent)
        raise ValueError(f"{folder} is a file; name the results folder around it: {study}")
    if is_collection(folder.parent) and not folder.exists():
        return _collected(folder.parent, only=folder.name)
    collected = [path.parent for path in sorted(files_named(folder, ROUNDS_FILE))]
    found = [source for collection in collected for source in _collected(collection)]
    studies: dict[Path, list[Path]] = {record.parent: [] for record in sorted(files_named(folder, RUN_FILE))}
    for path in rows_files(folder):
        study = next((parent for parent in path.parents if parent in studies), folder)
        studies.setdefault(study, []).append(path)
    if not found and not studies:
        studies = {folder: []}
    return [*found, *(_source(study, paths) for study, paths in studies.items())]


def _collected(folder: Path, only: str | None = None) -> list[Source]:
    """The studies of a collection, or the one that is named.

    Raises:
        ValueError: If the files cannot be read, or there is no such study.
    """
    studies = read_collection(folder)
    if only is not None:
        studies = {only: look_up(f"study in {folder}", only, studies)}
    return [
        Source(folder / name, study.rows, parse_run_info(json.dumps(study.record), f"the record of {folder / name}"))
        for name, study in studies.items()
    ]


def _source(folder: Path, paths: Sequence[Path]) -> Source:
    rows = rows_of(folder, paths)
    scenarios = sorted(rows["scenario"].unique())
    if len(scenarios) > 1:
        raise ValueError(
            f"{folder} holds rows of {' and '.join(scenarios)}, which do not compare; report them one by one"
        )
    info = _readable(folder)
    if info is not None:
        _check_rows_are_of(folder, rows, info)
    return Source(folder, rows, info)


def _readable(folder: Path) -> RunInfo | None:
    """What run.json says; None, with a warning if there is one, where it cannot be read."""
    try:
        return load_run_info(folder)
    except FileNotFoundError:
        return None
    except ValueError as error:
        print(f"warning: {printable(error)}; what was asked for is taken from the rows", file=sys.stderr)
        return None


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


def check_same_settings(first: Source, second: Source, problem: str, ignored: Sequence[str] = ()) -> None:
    """Raises ValueError, ``problem`` with the first ``--set`` that differs, if a method is in both."""
    shared = {method for method, _ in first.trials} & {method for method, _ in second.trials}
    if shared:
        keys = sorted((first.settings.keys() | second.settings.keys()) - {*ignored})
        ours, theirs = ({key: source.settings.get(key, "not set") for key in keys} for source in (first, second))
        check_same(ours, theirs, f"{problem}: both have {min(shared)}")


def check_same(first: Mapping[str, Any], second: Mapping[str, Any], problem: str) -> None:
    """Raises ValueError, ``problem`` with the first fact in which two studies differ."""
    for name in dict.fromkeys([*first, *second]):
        ours, theirs = first.get(name), second.get(name)
        if ours != theirs:
            raise ValueError(f"{problem}: {name} is {ours} in the first and {theirs} in the second")


def _facts(source: Source) -> dict[str, Any]:
    """What has to be the same in folders that are merged."""
    info = source.info
    if info is None:
        raise ValueError(
            f"{source.folder} has no readable run.json, so nothing says that it is comparable; report it alone"
        )
    if info.search:
        raise ValueError(f"{source.folder} is a search; searches are not merged, report it alone")
    return {
        "scenario": info.scenario,
        "target": info.target_accuracy,
        "rounds": info.rounds,
        "pretrained": bool(info.init_from),
        **compared_federation(info),
    }


def compared_federation(info: RunInfo) -> dict[str, Any]:
    """Settings of the federation that change what is trained, as in ``--set``."""
    return {f"{ENV_PREFIX}{key}": value for key, value in info.federation.items() if key not in _NOT_COMPARED}
