"""The long table of studies: one row for each trial, round and client."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pandas as pd

from experiments.report.read_studies import read_studies
from experiments.results.collection import by_client

_OF_THE_ROUND = ["study", "scenario", "method", "seed", "setting", "trial", "round"]


def client_rows(folders: str | Path | Sequence[str | Path]) -> pd.DataFrame:
    """Returns what rows hold for each live client of each round.

    Args:
        folders: A results folder or collected studies, or several; studies in folders below them count too. They need
            not be comparable.

    Returns:
        Columns ``study`` (the name of the results folder), ``scenario``, ``method``, ``seed``, ``setting``, ``trial``,
        ``round``, ``client``, ``cost_j``, ``accuracy`` (after the round), ``selected``, ``trained``, ``failed``,
        ``suggestion`` (of the client's policy), ``score`` (what the sampler selected by) and ``reward``. The last three
        are NaN where they were not recorded.

    Raises:
        ValueError: If there is no such folder, or no readable rows in it.
    """
    named = [folders] if isinstance(folders, str | Path) else folders
    rows = [
        study.rows.assign(study=study.folder.resolve().name) for folder in named for study in read_studies(Path(folder))
    ]
    return by_client(pd.concat(rows, ignore_index=True), _OF_THE_ROUND).reset_index(drop=True)
