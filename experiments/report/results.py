"""One or more results folders of the same scenario as one: rows and what was asked for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from experiments.results.federation_record import FederationRecord
from experiments.results.naming import look_up
from experiments.results.rows import read_rows
from experiments.results.run_info import RunInfo, read_run_info
from experiments.scenarios import SCENARIOS

_NOT_THE_FEDERATION = ("data_dir", "device", "with_loss", "executor")
"""Settings of where it runs and of what is told; what is trained is the same."""


@dataclass(frozen=True)
class Source:
    """One results folder. `info` is None where its run.json cannot be read."""

    folder: Path
    rows: pd.DataFrame
    info: RunInfo | None


@dataclass(frozen=True)
class Results:
    """Folders that may be compared with each other, in the order they were named."""

    sources: tuple[Source, ...]

    @property
    def rows(self) -> pd.DataFrame:
        """All rows, folder by folder."""
        if len(self.sources) == 1:
            return self.sources[0].rows
        return pd.concat([source.rows for source in self.sources], ignore_index=True)

    @property
    def infos(self) -> list[RunInfo]:
        return [source.info for source in self.sources if source.info is not None]

    @property
    def scenario(self) -> str:
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
        """In the order they were asked for."""
        asked = [method for info in self.infos for method in info.methods]
        return list(dict.fromkeys([*asked, *(str(method) for method in self.rows["method"].unique())]))

    @property
    def is_search(self) -> bool:
        return any(info.search for info in self.infos)

    @property
    def is_pretrained(self) -> bool:
        """Policies started from a checkpoint."""
        return any(info.init_from for info in self.infos)

    @property
    def resolved(self) -> FederationRecord | None:
        """The federation with its clients, from the first run.json that holds it."""
        return next((info.federation_record for info in self.infos if info.federation_record is not None), None)


def read_results(folders: Sequence[Path]) -> Results:
    """Read folders and check that they may be merged.

    Raises:
        ValueError: If one holds no rows, if scenario, federation, target or rounds differ, or if a method and seed is
            in two of them.
    """
    sources = tuple(Source(folder, read_rows(folder), read_run_info(folder)) for folder in folders)
    for source in sources[1:]:
        _check_alike(sources[0], source)
    for place, source in enumerate(sources):
        for earlier in sources[:place]:
            _check_apart(earlier, source)
    return Results(sources)


def _check_alike(first: Source, other: Source) -> None:
    ours, theirs = _facts(first), _facts(other)
    for name in dict.fromkeys([*ours, *theirs]):
        if ours.get(name) != theirs.get(name):
            raise ValueError(
                f"{first.folder} and {other.folder} cannot be merged: {name} is {ours.get(name)} in the first and "
                f"{theirs.get(name)} in the second; report them one by one"
            )


def _facts(source: Source) -> dict[str, Any]:
    """What has to be the same."""
    info = source.info
    if info is None:
        raise ValueError(
            f"{source.folder} has no readable run.json, so nothing says that it is comparable; report it alone"
        )
    if info.search:
        raise ValueError(f"{source.folder} is a search; searches are not merged, report it alone")
    scenarios = ", ".join(sorted(source.rows["scenario"].unique()))
    federation = {f"env.{key}": value for key, value in info.federation.items() if key not in _NOT_THE_FEDERATION}
    return {
        "scenario": scenarios,
        "target": info.target_accuracy,
        "rounds": info.rounds,
        "pretrained": bool(info.init_from),
        **federation,
    }


def _check_apart(earlier: Source, later: Source) -> None:
    both = sorted(_trials(earlier) & _trials(later))
    if both:
        method, seed = both[0]
        raise ValueError(
            f"{method} with seed {seed} is in {earlier.folder} and in {later.folder}; a trial counts once, so move one "
            "of its folders away"
        )


def _trials(source: Source) -> set[tuple[str, int]]:
    pairs = source.rows[["method", "seed"]].drop_duplicates()
    return {(str(method), int(seed)) for method, seed in pairs.itertuples(index=False)}
