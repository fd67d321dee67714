"""Studies with odd rows and records, as the report may be given them."""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
import json
import random
import shutil
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from record_mutations import ODD_VALUES, mutated
from row_factory import make_rows, write_trial

from experiments.results.federation_record import ClientRecord, FederationRecord, ModelRecord
from experiments.results.run_info import RunInfo, write_run_info

CLIENTS = [ClientRecord(0, {"0": 30, "1": 20}, 7e8, 1.0), ClientRecord(1, {"1": 40}, 1.5e9, 2.0)]
RECORD = FederationRecord(["zero", "one"], 5, ModelRecord("cnn", 10, 100), CLIENTS, [1])
INFO = RunInfo(
    "digits", 0.8, 12, {"dataset": "digits"}, ["bippo", "mine.odd"], [7, 28], {"lr": 0.1}, federation_record=RECORD
)
SEARCH = dataclasses.replace(
    INFO, methods=["bippo"], seeds=[7], search={"lr": "choice([1, 2])"}, draws=[{"lr": "1"}, {"lr": "2"}], num_samples=2
)
ODD_NUMBERS: tuple[Any, ...] = (None, -1, 0, 1, 2, 13, 2**31, 2**62, -0.5, 0.5, 1e300, float("inf"), float("nan"))


def write_studies(folder: Path) -> None:
    """Writes a small study and a small search."""
    accuracy = [0.1 * place for place in range(10)] + [0.9, 0.9]
    for info in (INFO, SEARCH):
        study = folder / ("search" if info.search else "study")
        settings = [f"lr={lr}" for lr in (1, 2)] if info.search else [""]
        for method, seed, setting in itertools.product(info.methods, info.seeds, settings):
            write_trial(study, make_rows(accuracy, method, seed, setting))
        write_run_info(study, info)


def mutate_record(path: Path, rng: random.Random) -> None:
    """Puts something odd into a record, unless it cannot be read any more."""
    with contextlib.suppress(ValueError):
        path.write_bytes(mutated(json.loads(path.read_bytes()), rng))


def mutate_rows(path: Path, rng: random.Random) -> None:
    """Changes bytes of the file, or values, rows and columns of what it holds."""
    kind = rng.random()
    if kind < 0.3:
        content = bytearray(path.read_bytes())
        for _ in range(rng.randint(1, 4)):
            content[rng.randrange(len(content))] = rng.randrange(256)
        path.write_bytes(content[: rng.randrange(len(content))] if rng.random() < 0.2 else content)
        return
    try:
        table = pq.read_table(path, partitioning=None)
    except (OSError, pa.ArrowException):
        return  # changed before
    if not len(table):
        return
    if kind < 0.4:
        places = [rng.randrange(len(table)) for _ in range(rng.randint(0, 14))]
        pq.write_table(table.take(pa.array(places, pa.int64())), path)
        return
    name = rng.choice(table.column_names)
    place, field = table.column_names.index(name), table.schema.field(name)
    if kind < 0.45:
        pq.write_table(table.remove_column(place), path)
        return
    values = [_odd(value, field.type, rng) if rng.random() < 0.3 else value for value in table[name].to_pylist()]
    if rng.random() < 0.3:  # the same in all rows, as what is constant in a trial
        values = [values[0]] * len(values)
    with contextlib.suppress(pa.ArrowException, OverflowError, TypeError, ValueError):
        pq.write_table(table.set_column(place, field, [pa.array(values, field.type)]), path)


def _odd(value: Any, dtype: pa.DataType, rng: random.Random) -> Any:
    if pa.types.is_list(dtype):
        values = [_odd(entry, dtype.value_type, rng) if rng.random() < 0.5 else entry for entry in value or []]
        return rng.choice([None, [], values, values * 2, [*values, _odd(0, dtype.value_type, rng)]])
    if pa.types.is_string(dtype):
        return rng.choice([text for text in ODD_VALUES if isinstance(text, str)] + ["num_epochs=[1]", "lr=1 lr=2"])
    number = rng.choice(ODD_NUMBERS)
    if number is None or not pa.types.is_integer(dtype) or isinstance(number, int):
        return number
    return 3


def damaged_study(seed: int, studies: Path) -> Path:
    """Returns a copy of one of the studies with something odd in it; it replaces the last one."""
    rng, folder = random.Random(seed), studies / "odd"
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(studies / rng.choice(("study", "study", "search")), folder)
    for _ in range(rng.choice((1, 1, 2))):
        if rng.random() < 0.5:
            mutate_rows(rng.choice(sorted(folder.rglob("rows.parquet"))), rng)
        else:
            mutate_record(folder / "run.json", rng)
    return folder
