"""One or more studies of the same scenario as one: their rows and what was requested."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path

import pandas as pd

from experiments.methods import is_reference
from experiments.report.churn import Churn, find_churn
from experiments.report.comparable import check_mergeable
from experiments.report.read_studies import FinishedStudy, read_studies
from experiments.results.collection import CollectedStudy, write_collection
from experiments.results.run_info import RunInfo
from experiments.scenarios import SCENARIOS


class Results:
    """Studies that may be compared with each other, in the order in which they were named.

    Attributes:
        title: What headings call them: the name that is given, or that of custom data, or of the scenario.
        target: Target accuracy, a share of 1: the one that is given, or that of the studies.
        rounds: Requested rounds of each trial.
        methods: In the requested order; references last.
        is_search: Whether settings were searched.
        is_pretrained: Whether policies started from a checkpoint.
        federation_record: The federation with its clients, from the first run.json that holds it.
    """

    def __init__(self, studies: Sequence[FinishedStudy], name: str = "", target: float | None = None) -> None:
        self.studies, self.infos = studies, [study.info for study in studies]
        self.folders = ", ".join(str(study.folder) for study in studies)  # for messages
        self.rows = pd.concat([study.rows for study in studies], ignore_index=True)
        first = self.infos[0]
        self.scenario, self.rounds = first.scenario, first.rounds
        self.title = name or _name_of(first)
        self.target = first.target_accuracy if target is None else target
        requested = [method for info in self.infos for method in info.methods]
        self.methods = sorted(dict.fromkeys([*requested, *self.rows["method"].unique()]), key=is_reference)
        self.is_search = any(info.search for info in self.infos)
        self.is_pretrained = any(info.init_from for info in self.infos)
        records = (info.federation_record for info in self.infos)
        self.federation_record = next((record for record in records if record is not None), None)

    @cached_property
    def churn(self) -> Churn | None:
        """When clients join and leave; None if none does."""
        return find_churn(self.rows)


def _name_of(info: RunInfo) -> str:
    scenario, dataset = SCENARIOS.get(info.scenario), info.federation.get("dataset")
    is_custom = scenario is not None and dataset not in (None, scenario.federation["dataset"])
    return str(dataset) if is_custom else info.scenario


def read_results(folders: Sequence[Path], name: str = "", target: float | None = None) -> Results:
    """Reads folders, and every study in a folder below them, and checks that all of them may be merged.

    Args:
        folders: Results folders, or collected studies.
        name: What to call the study in headings.
        target: Target accuracy, a share of 1, instead of the study's.

    Raises:
        ValueError: If one holds no rows, and as ``check_mergeable``.
    """
    studies = [study for folder in folders for study in read_studies(folder)]
    check_mergeable(studies)
    return Results(studies, name, target)


def collect(folders: Sequence[Path], output: Path, without: Sequence[str] = ()) -> Results:
    """Writes all studies in these folders to two files in ``output``; returns them.

    Where the data lay is left out of their records.

    Args:
        folders: Results folders, or collected studies.
        output: Folder of the two files.
        without: Those of ``POLICY_COLUMNS`` that are left empty.

    Raises:
        ValueError: If a study has no record, is a search, or has the name of another one.
    """
    studies = [study for folder in folders for study in read_studies(folder)]
    collected: dict[str, CollectedStudy] = {}
    for study in studies:
        name = study.folder.resolve().name
        if study.info.search or not study.is_recorded:
            what = "is a search" if study.info.search else "has no readable run.json"
            raise ValueError(f"{study.folder} {what}; only studies with a record and without a search are collected")
        if name in collected:
            raise ValueError(f"two of the studies are called {name}; rename the folder of one of them")
        record = dataclasses.asdict(study.info)
        record["federation"] = {key: value for key, value in study.info.federation.items() if key != "data_dir"}
        collected[name] = CollectedStudy(study.rows.assign(**dict.fromkeys(without)), record)
    write_collection(output, collected)
    return Results(studies)
