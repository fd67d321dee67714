"""Rows on disk, written and read: one row per trial and round, one ``rows.parquet`` per trial."""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from envs.checks import first_line, printable
from envs.rules.budget import fits
from experiments.results.files import atomic_write, files_named
from experiments.results.row_schema import COLUMNS, OF_THE_TRIAL, SCHEMA
from experiments.results.table_checks import completed, problem_of_clients, problem_of_columns, problem_of_one_trial

ROWS_FILE = "rows.parquet"
#: Rounds over which accuracy is averaged where one round's swings too much: for a target, and to compare settings.
WINDOW = 10


def check_budget(row: Mapping[str, Any]) -> None:
    """Fails loudly where a round spent more than its budget; nothing measured after that could be trusted.

    Raises:
        RuntimeError: Naming the round, its energy, its budget and the clients.
    """
    if not fits(row["energy_j"], row["budget_j"]):
        raise RuntimeError(
            f"round {row['round']} of {row['trial']} spent {row['energy_j']:.9g} J, more than its budget of "
            f"{row['budget_j']:.9g} J, on clients {', '.join(map(str, row['trained']))}; "
            "this is a bug in the sampler or the environment"
        )


class RowWriter:
    """Collects a trial's rows and rewrites its file as a whole: at most once per ``interval_s``, and on ``flush()``.

    The file is replaced atomically, so a reader never sees half a file and a killed run keeps what was written.
    """

    def __init__(self, folder: Path, interval_s: float = 1.0) -> None:
        self.path = Path(folder) / ROWS_FILE
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self._interval_s = interval_s
        self._rows: list[Mapping[str, Any]] = []
        self._num_written = 0
        self._written_at = float("-inf")

    def continue_after(self, round_number: int) -> list[Mapping[str, Any]]:
        """Keeps the rows of the file up to a round, and returns them."""
        self._rows = [row for row in read_table(self.path).to_pylist() if row["round"] <= round_number]
        self._num_written = len(self._rows)
        return list(self._rows)

    def append(self, row: Mapping[str, Any]) -> None:
        """Checks and keeps one row; writes if the last write is old enough."""
        check_budget(row)
        self._rows.append(row)
        if time.monotonic() - self._written_at >= self._interval_s:
            self.flush()

    def flush(self) -> None:
        """Writes everything that is not on disk yet."""
        if self._num_written == len(self._rows):
            return
        if not self.path.parent.is_dir():
            raise FileNotFoundError(f"the trial's folder {self.path.parent} was removed while it ran")
        write_table(pa.Table.from_pylist(self._rows, schema=SCHEMA), self.path)
        self._num_written = len(self._rows)
        self._written_at = time.monotonic()


def read_table(
    path: Path, columns: Sequence[str] | None = None, filters: Sequence[tuple[str, str, Any]] | None = None
) -> pa.Table:
    """Reads a table, such as one trial's rows: all columns or the named ones, all rows or those that ``filters`` keep.

    Raises:
        OSError: If there is no such file.
        ValueError: If it is no Parquet file that can be read, in one line.
    """
    if path.exists() and not path.is_file():  # reading a pipe would wait for a writer
        raise ValueError("not a file")
    try:
        # A trial's folder may hold an equals sign.
        table = pq.read_table(path, columns=columns, partitioning=None, filters=filters)
        table.validate(full=True)
    except FileNotFoundError:
        raise
    except (OSError, ValueError, pa.ArrowException) as error:
        raise ValueError(first_line(error)) from None
    return table


def write_table(table: pa.Table, path: Path) -> None:
    """Replaces a Parquet file as a whole."""
    with atomic_write(path) as unfinished:
        pq.write_table(table, unfinished)


def read_rows(results_dir: str | Path) -> pd.DataFrame:
    """Reads all rows under a results folder, ordered by method, setting, seed and round.

    A file that cannot be read is named on stderr and left out: the other trials can still be reported, and the report
    names every trial that is missing.

    Raises:
        ValueError: If there is no such folder, no readable rows in it, or a trial with two rows for one round.
    """
    folder = Path(results_dir)
    return rows_of(folder, rows_files(folder))


def rows_files(folder: Path) -> list[Path]:
    """Returns the row files of all trials under a results folder.

    Raises:
        ValueError: If there is no such folder.
    """
    if not folder.is_dir():
        raise ValueError(f"no results folder {folder}: run `bippo tune --results-dir {folder}`")
    return sorted(files_named(folder, ROWS_FILE))


def rows_of(folder: Path, paths: Sequence[Path]) -> pd.DataFrame:
    """Reads the rows of these files under the folder; see ``read_rows``."""
    if not paths:
        raise ValueError(f"no {ROWS_FILE} under {folder}: it is not a results folder, or no round was finished")
    frames = [frame for path in paths if (frame := _read_file(path)) is not None]
    if not frames:
        raise ValueError(f"none of the {len(paths)} {ROWS_FILE} files under {folder} can be read")
    rows = pd.concat(frames, ignore_index=True)
    _check_one_row_per_round(rows, folder)
    return rows.sort_values(["method", "setting", "seed", "trial", "round"], kind="stable", ignore_index=True)


def _read_file(path: Path) -> pd.DataFrame | None:
    try:
        table = read_table(path)
        problem = _problem(table)
    except (OSError, ValueError) as error:
        problem = f"which is not a readable Parquet file ({first_line(error)})"
    if problem:
        print(f"warning: left out {printable(path)}, {printable(problem)}", file=sys.stderr)
        return None
    # Without the metadata that another program may have added.
    return completed(table, COLUMNS).replace_schema_metadata(None).to_pandas()


def _problem(table: pa.Table) -> str:
    """Returns why a table does not hold the rows of one trial; empty if it does."""
    return problem_of_columns(table, COLUMNS) or problem_of_one_trial(table, OF_THE_TRIAL) or problem_of_clients(table)


def _check_one_row_per_round(rows: pd.DataFrame, folder: Path) -> None:
    repeated = rows[rows.duplicated(["trial", "round"])]
    if len(repeated):
        first = repeated.iloc[0]
        raise ValueError(
            f"{folder} holds more than one row for round {first['round']} of trial {first['trial']}: "
            "keep one copy of each trial's folder"
        )
