"""What a column of a file of rows may hold, and checks of a table that should have such columns."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

#: Of ids, so that a row and an id fit into one number.
MOST_CLIENTS = 2**31
_LONGEST_TEXT = 4096
#: A mean of shares of 1 may be above 1 by so much.
_ROUNDING = 1e-9


@dataclass(frozen=True)
class Column:
    """A column: its name, meaning, Arrow type and unit ("" for none). Unit and meaning are stored in the file too."""

    name: str
    meaning: str
    dtype: pa.DataType
    unit: str = ""
    least: float = 0.0  #: Of its numbers; ``least`` and ``most`` do not apply to texts.
    most: float = np.finfo(float).max  #: Infinite where the numbers may be.
    may_be_null: bool = False
    may_be_nan: bool = False
    may_be_missing: bool = False  #: In files that were written before there was the column.

    def field(self) -> pa.Field:
        """Returns the column's field of an Arrow schema."""
        return pa.field(self.name, self.dtype, metadata={"unit": self.unit, "meaning": self.meaning})


def problem_of_columns(table: pa.Table, columns: Sequence[Column]) -> str:
    """Returns why a table does not hold these columns, as the end of a sentence; empty if it does."""
    names = table.column_names
    missing = [column.name for column in columns if column.name not in names and not column.may_be_missing]
    if missing:
        return f"which has no column {', '.join(missing)}"
    columns = [column for column in columns if column.name in names]
    for column in columns:
        if names.count(column.name) > 1:
            return f"which has column {column.name} twice"
        if not table.schema.field(column.name).type.equals(column.dtype):
            return f"whose column {column.name} is no {column.dtype}"
    if not len(table):
        return "which has no rows"
    return next(filter(None, (_problem_of_values(table[column.name], column) for column in columns)), "")


def completed(table: pa.Table, columns: Sequence[Column]) -> pa.Table:
    """Returns these columns of a table that has no problem; one that is missing has nulls."""
    for column in columns:
        if column.name not in table.column_names:
            table = table.append_column(column.field(), pa.nulls(len(table), column.dtype))
    return table.select([column.name for column in columns])


def _problem_of_values(values: pa.ChunkedArray, column: Column) -> str:
    is_list = pa.types.is_list(column.dtype)
    entries = pc.list_flatten(values) if is_list else values
    if (values.null_count and not column.may_be_null) or (is_list and entries.null_count):
        return f"whose column {column.name} has entries without a value"
    if pa.types.is_string(column.dtype):
        longest = pc.max(pc.binary_length(entries)).as_py() or 0
        return f"whose column {column.name} has a text of {longest} bytes" if longest > _LONGEST_TEXT else ""
    numbers = entries.drop_null().to_numpy()
    if column.may_be_nan:
        numbers = numbers[~np.isnan(numbers)]
    outside = numbers[~((numbers >= column.least) & (numbers <= column.most + _ROUNDING))]
    if not len(outside):
        return ""
    most = "" if column.most == math.inf else f" to {column.most:g}"
    return f"whose column {column.name} has {outside[0]}; expected {column.least:g}{most}"


def problem_of_one_trial(table: pa.Table, same: Sequence[str]) -> str:
    """Returns why rows are not of one trial: a column of ``same`` has several values, or a round is missing.

    Args:
        table: Whose columns have no problem.
        same: Names of columns.
    """
    for name in same:
        values = table[name].unique()
        if len(values) > 1:
            return f"whose rows are of more than one {name}: {values[0]} and {values[1]}"
    rounds = table["round"].to_numpy()
    if not np.array_equal(rounds, np.arange(1, len(rounds) + 1)):
        return f"whose rows are not of rounds 1 to {len(rounds)} in their order"
    return ""


def problem_of_clients(table: pa.Table) -> str:
    """Returns why columns with clients, or with an entry for each, contradict each other; empty if they do not.

    Args:
        table: Whose columns have no problem.
    """
    live = _lengths(table, "clients")
    for name in ("costs_j", "accuracies", "suggestions", "scores", "rewards"):
        if not np.array_equal(*_where_known(table, name, live)):
            return f"whose column {name} has not one entry for each of clients"
    for count, name in (("num_clients", "clients"), ("num_trained", "trained")):
        if not np.array_equal(table[count].to_numpy(), _lengths(table, name)):
            return f"whose column {count} is not how many {name} has"
    clients = _clients_by_row(table, "clients")
    for name in ("clients", "trained", "failed"):
        named = _clients_by_row(table, name)
        if name != "failed" and (np.diff(named) <= 0).any():
            return f"whose column {name} does not name each client once, in ascending order"
        if not np.isin(named, clients).all():
            return f"whose column {name} names clients that are none of the round"
    return ""


def _where_known(table: pa.Table, name: str, live: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Returns the lengths of a list column and the expected ones, without the rows in which it is null."""
    if name not in table.column_names:
        return live, live
    known = table[name].is_valid().to_numpy()
    return pc.list_value_length(table[name].drop_null()).to_numpy(), live[known]


def _lengths(table: pa.Table, name: str) -> np.ndarray:
    return pc.list_value_length(table[name]).to_numpy()


def _clients_by_row(table: pa.Table, name: str) -> np.ndarray:
    """Returns a number for each row and client that it names; ascending where the clients of each row are."""
    rows = np.repeat(np.arange(len(table), dtype=np.int64), _lengths(table, name))
    return rows * MOST_CLIENTS + pc.list_flatten(table[name]).to_numpy()
