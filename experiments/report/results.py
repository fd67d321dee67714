"""One or more results folders of the same scenario as one: rows and what was asked for."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import pandas as pd

from experiments.methods import is_reference
from experiments.results.federation_record import FederationRecord
from experiments.results.naming import look_up
from experiments.results.rows import read_rows
from experiments.results.run_info import RunInfo, read_run_info
from experiments.scenarios import SCENARIOS
from experiments.study.settings import split_settings

#: Settings of a federation that do not change what is trained.
_NOT_COMPARED = ("data_dir", "device", "with_loss", "executor")


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
        """``--set`` of the algorithm, the same for all its methods."""
        return split_settings(self.info.settings)[0] if self.info else {}


@dataclass(frozen=True)
class Results:
    """Folders that may be compared with each other, in the order they were named."""

    sources: tuple[Source, ...]

    @cached_property
    def rows(self) -> pd.DataFrame:
        """All rows, folder by folder."""
        return pd.concat([source.rows for source in self.sources], ignore_index=True)

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
    def target(self) -> float:
        """Target accuracy, from run.json or else from the named scenario."""
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


def read_results(folders: Sequence[Path]) -> Results:
    """Reads folders and checks that they may be merged.

    Raises:
        ValueError: If one holds no rows, if scenario, federation, target or rounds differ, or if a method and seed is
            in two of them.
    """
    sources = tuple(Source(folder, read_rows(folder), read_run_info(folder)) for folder in folders)
    for source in sources[1:]:
        problem = f"{sources[0].folder} and {source.folder} cannot be merged, report them one by one"
        check_same(_facts(sources[0]), _facts(source), problem)
    for earlier, later in itertools.combinations(sources, 2):
        for method, seed in sorted(earlier.trials & later.trials)[:1]:
            raise ValueError(
                f"{method} with seed {seed} is in {earlier.folder} and in {later.folder}; a trial counts once, so move "
                "one of its folders away"
            )
        check_same_settings(
            earlier, later, f"{earlier.folder} and {later.folder} cannot be merged, report them one by one"
        )
    return Results(sources)


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
        "scenario": ", ".join(sorted(source.rows["scenario"].unique())),
        "target": info.target_accuracy,
        "rounds": info.rounds,
        "pretrained": bool(info.init_from),
        **compared_federation(info),
    }


def compared_federation(info: RunInfo) -> dict[str, Any]:
    """Settings of the federation that change what is trained, as in ``--set``."""
    return {f"env.{key}": value for key, value in info.federation.items() if key not in _NOT_COMPARED}
