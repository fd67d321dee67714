"""Finished studies in two Parquet files that ``pandas.read_parquet`` reads.

``rounds.parquet`` has one row per study, trial and round, with the columns of a trial's rows that hold one value,
clocks left out.
``clients.parquet`` has one row per study, trial, round and live client. The run.json of each study, by its name, is in
``pandas.read_parquet("rounds.parquet").attrs["studies"]``.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from experiments.results.files import atomic_write
from experiments.results.naming import look_up
from experiments.results.row_schema import COLUMN_NAMES, COLUMNS
from experiments.results.rows import read_table
from experiments.results.table_checks import Column, completed, problem_of_columns

ROUNDS_FILE, CLIENTS_FILE = "rounds.parquet", "clients.parquet"
STUDY = Column("study", "name of the study", pa.string())
#: Columns that are left out: durations are of little use later, and would be a third of the file.
CLOCKS = ("fl_seconds", "rl_seconds")
#: Lists of a row with what policies did: numbers that hardly compress, and that may be left empty.
POLICY_COLUMNS = ("suggestions", "scores", "rewards")
ROUND_COLUMNS = (STUDY, *(c for c in COLUMNS if not pa.types.is_list(c.dtype) and c.name not in CLOCKS))
CLIENT_COLUMNS = (
    STUDY,
    *(column for column in COLUMNS if column.name in ("trial", "round")),
    Column("client", "id of a client that was live in the round", pa.int64()),
    Column("cost_j", "energy the client would need for the round", pa.float64(), "J"),
    Column("accuracy", "the client's accuracy after the round", pa.float64(), "share of 1", most=1.0),
    Column("trained", "whether it trained in the round", pa.bool_()),
    Column("failed", "whether its training failed in the round", pa.bool_()),
    *(
        replace(column, name=column.name.removesuffix("s"), dtype=pa.float64())
        for column in COLUMNS
        if column.name in POLICY_COLUMNS
    ),
)
#: Where pandas keeps ``DataFrame.attrs`` in a Parquet file.
_ATTRS = b"PANDAS_ATTRS"
_KEY = ["study", "trial", "round"]


class CollectedStudy(NamedTuple):
    """A finished study: its rows, without the columns of clocks, and its record as in run.json."""

    rows: pd.DataFrame
    record: Mapping[str, Any]


def write_collection(folder: Path, studies: Mapping[str, CollectedStudy]) -> None:
    """Writes both files; each replaces an earlier one as a whole."""
    rows = pd.concat([study.rows.assign(study=name) for name, study in studies.items()], ignore_index=True)
    records = {"studies": {name: study.record for name, study in studies.items()}}
    folder.mkdir(parents=True, exist_ok=True)
    _write([rows], ROUND_COLUMNS, folder / ROUNDS_FILE, records)
    # Rows of clients are many: a study can be read without the others'.
    clients = [of_study for _, of_study in by_client(rows, _KEY).groupby("study", sort=False)]
    _write(clients, CLIENT_COLUMNS, folder / CLIENTS_FILE, {})


def _write(groups: Sequence[pd.DataFrame], columns: tuple[Column, ...], path: Path, attrs: Mapping[str, Any]) -> None:
    """Writes each of ``groups`` as a row group, which can be read without the others."""
    schema = pa.schema([column.field() for column in columns])
    # Without Arrow's copy of the schema, which would hold the records a second time.
    options = {"compression": "zstd", "compression_level": 15, "store_schema": False}
    with atomic_write(path) as unfinished, pq.ParquetWriter(unfinished, schema, **options) as writer:
        for frame in groups:
            # NaN, which pandas takes for a missing value, is one only where a column may be null.
            arrays = [pa.array(frame[c.name].to_numpy(), c.dtype, from_pandas=c.may_be_null) for c in columns]
            writer.write_table(pa.Table.from_arrays(arrays, schema=schema))
        writer.add_key_value_metadata({_ATTRS: json.dumps(attrs, ensure_ascii=False)})


def by_client(rows: pd.DataFrame, kept: Sequence[str]) -> pd.DataFrame:
    """Returns one row per live client of each row, in the order of ``rows``; ``selected`` is ``trained`` or ``failed``.

    Args:
        rows: Of trials.
        kept: Their columns that each row of a client repeats.
    """
    repeated = rows.loc[rows.index.repeat(rows["num_clients"]), list(kept)]
    trained, failed = (
        np.concatenate([np.isin(live, named) for live, named in zip(rows["clients"], rows[name], strict=True)])
        for name in ("trained", "failed")
    )
    return repeated.assign(
        client=np.concatenate(rows["clients"].to_list()),
        cost_j=np.concatenate(rows["costs_j"].to_list()),
        accuracy=np.concatenate(rows["accuracies"].to_list()),
        selected=trained | failed,
        trained=trained,
        failed=failed,
        **{name.removesuffix("s"): _values(rows, name) for name in POLICY_COLUMNS},
    )


def _values(rows: pd.DataFrame, name: str) -> np.ndarray:
    """Returns a list column as one array, with NaN for the clients of a row without a list."""
    pairs = zip(rows[name], rows["num_clients"], strict=True)
    return np.concatenate([np.full(number, math.nan) if values is None else values for values, number in pairs])


def is_collection(folder: Path) -> bool:
    """Returns whether a folder holds collected studies."""
    return (folder / ROUNDS_FILE).is_file()


def read_collection(folder: Path, only: str | None = None) -> dict[str, CollectedStudy]:
    """Returns the studies by their names.

    Args:
        folder: Of the collection.
        only: Name of the one study to read; all by default.

    Raises:
        ValueError: If the files cannot be read or contradict each other, or there is no such study, in one line.
    """
    if only is not None and (known := _records(folder / ROUNDS_FILE)):
        look_up(f"study in {folder}", only, known)
    rounds, clients = (
        _read(folder / name, columns, only)
        for name, columns in ((ROUNDS_FILE, ROUND_COLUMNS), (CLIENTS_FILE, CLIENT_COLUMNS))
    )
    if not rounds.loc[rounds.index.repeat(rounds["num_clients"]), _KEY].reset_index(drop=True).equals(clients[_KEY]):
        raise ValueError(f"{folder / CLIENTS_FILE} does not have the rounds and clients of {ROUNDS_FILE}")
    records = rounds.attrs.get("studies", {})
    kept = [name for name in COLUMN_NAMES if name not in CLOCKS]
    return {
        str(name): CollectedStudy(rows[kept].reset_index(drop=True), records.get(name, {}))
        for name, rows in _with_lists(rounds, clients).groupby("study", sort=False)
    }


def _records(path: Path) -> dict[str, Any]:
    """Returns the run.json of each study; none where the file cannot be read, which reading it names."""
    try:
        return _attrs(pq.read_schema(path)).get("studies", {})
    except (OSError, pa.ArrowException):
        return {}


def _attrs(schema: pa.Schema) -> dict[str, Any]:
    return json.loads((schema.metadata or {}).get(_ATTRS, b"{}"))


def _read(path: Path, columns: tuple[Column, ...], only: str | None) -> pd.DataFrame:
    try:
        table = read_table(path, filters=None if only is None else [(STUDY.name, "=", only)])
    except (OSError, ValueError) as error:
        raise ValueError(f"{path} is no readable Parquet file: {error}") from None
    if problem := problem_of_columns(table, columns):
        raise ValueError(f"{path} is no file of collected studies, {problem.removeprefix('which ')}")
    frame = completed(table, columns).replace_schema_metadata(None).to_pandas()
    frame.attrs = _attrs(table.schema)
    return frame


def _with_lists(rounds: pd.DataFrame, clients: pd.DataFrame) -> pd.DataFrame:
    """Returns ``rounds`` with a list column for each column of ``clients``, whose rows are in the same order."""
    ends = rounds["num_clients"].cumsum().to_numpy()[:-1]
    live, costs_j, accuracies, trained, failed = (
        np.split(clients[name].to_numpy(), ends) for name in ("client", "cost_j", "accuracy", "trained", "failed")
    )
    return rounds.assign(
        clients=live,
        costs_j=costs_j,
        accuracies=accuracies,
        trained=[ids[of] for ids, of in zip(live, trained, strict=True)],
        failed=[ids[of] for ids, of in zip(live, failed, strict=True)],
        **{name: _lists(clients[name.removesuffix("s")], ends) for name in POLICY_COLUMNS},
    )


def _lists(values: pd.Series, ends: np.ndarray) -> list[np.ndarray | None]:
    """Returns the list of each row, None where nothing was recorded."""
    lists = np.split(values.to_numpy(dtype=np.float64), ends)
    return [None if len(each) and np.isnan(each).all() else each for each in lists]
