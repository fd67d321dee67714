"""What must be the same in studies that are merged into one report, or compared with each other."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import Any

from experiments.report.read_studies import FinishedStudy
from experiments.results.run_info import RunInfo
from experiments.study.settings import ENV_PREFIX, split_settings

#: What methods are charged for asking clients; studies of different methods may differ in it.
_CHARGE = "probing_epochs"
#: Settings of a federation that do not change what is trained.
_NOT_COMPARED = ("data_dir", "device", "with_loss", "executor", _CHARGE)


def check_mergeable(studies: Sequence[FinishedStudy]) -> None:
    """Refuses studies that may not be merged.

    Raises:
        ValueError: If scenario, federation, target or rounds differ, if a method and seed is in two of them, or if a
            method has other settings in one than in the other.
    """
    for earlier, later in itertools.combinations(studies, 2):
        problem = f"{earlier.folder} and {later.folder} cannot be merged, report them one by one"
        check_same(_facts(earlier), _facts(later), problem)
        for method, seed in sorted(earlier.trials & later.trials)[:1]:
            raise ValueError(
                f"{method} with seed {seed} is in {earlier.folder} and in {later.folder}; a trial counts once, so move "
                "one of its folders away"
            )
        check_same_settings(earlier, later, problem)


def _facts(study: FinishedStudy) -> dict[str, Any]:
    info = study.info
    if not study.is_recorded:
        raise ValueError(f"{study.folder} has no readable run.json, so it may not be comparable; report it alone")
    if info.search:
        raise ValueError(f"{study.folder} is a search; searches are not merged, report it alone")
    facts = {"scenario": info.scenario, "target": info.target_accuracy, "rounds": info.rounds}
    return {**facts, "pretrained": bool(info.init_from), **federation_settings(info)}


def federation_settings(info: RunInfo) -> dict[str, Any]:
    """Returns settings of the federation that change what is trained, as in ``--set``."""
    return {f"{ENV_PREFIX}{key}": value for key, value in info.federation.items() if key not in _NOT_COMPARED}


def check_same_settings(first: FinishedStudy, second: FinishedStudy, problem: str, ignored: Sequence[str] = ()) -> None:
    """Raises ValueError, ``problem`` with the first ``--set`` that differs, if a method is in both."""
    shared = {method for method, _ in first.trials} & {method for method, _ in second.trials}
    if shared:
        settings = [_method_settings(study.info) for study in (first, second)]
        keys = sorted({*settings[0], *settings[1]} - {*ignored})
        ours, theirs = ({key: each.get(key, "not set") for key in keys} for each in settings)
        check_same(ours, theirs, f"{problem}: both have {min(shared)}")


def _method_settings(info: RunInfo) -> dict[str, Any]:
    """Returns ``--set`` of the algorithm and of what its methods are charged for asking clients."""
    charge = {f"{ENV_PREFIX}{key}": value for key, value in info.federation.items() if key == _CHARGE}
    return {**split_settings(info.settings)[0], **charge}


def check_same(first: Mapping[str, Any], second: Mapping[str, Any], problem: str) -> None:
    """Raises ValueError, ``problem`` with the first fact in which two studies differ."""
    for name in dict.fromkeys([*first, *second]):
        ours, theirs = first.get(name), second.get(name)
        if ours != theirs:
            raise ValueError(f"{problem}: {name} is {ours} in the first and {theirs} in the second")
