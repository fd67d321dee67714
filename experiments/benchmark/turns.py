"""Implementations that take turns, so that a busy machine affects all of them alike, and the table of their times."""

from __future__ import annotations

import json
import statistics
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import pandas as pd

from experiments.results.files import atomic_write
from experiments.results.markdown import markdown
from experiments.results.naming import look_up
from experiments.results.provenance import code_and_time, machine

#: Turns that are taken even if there is no time for them.
FEWEST_TURNS = 3

T = TypeVar("T")


def chosen(makers: Mapping[str, T], only: Sequence[str] | None, left_out: Mapping[str, str]) -> dict[str, T]:
    """Returns the implementations in ``only``, all by default, without those in ``left_out``, and prints why these are.

    Raises:
        ValueError: If ``only`` names an unknown one.
    """
    wanted = [name for name in only or makers if look_up("implementation", name, makers)]
    for name in wanted:
        if name in left_out:
            print(f"{name} is left out: {left_out[name]}", file=sys.stderr, flush=True)
    return {name: makers[name] for name in wanted if name not in left_out}


def timed(
    run: Callable[[], Any],
    rounds: int = 1,
    repeats: int = 1,
    clock: Callable[[], float] = time.perf_counter,
) -> Callable[[], float]:
    """Returns a function that returns the seconds per round of ``run``, which runs ``rounds`` rounds.

    It is called ``repeats`` times and the median counts: the first is on caches that others have filled.
    """

    def once() -> float:
        start = clock()
        run()
        return (clock() - start) / rounds

    return lambda: statistics.median(once() for _ in range(repeats))


def take_turns(rounds: Mapping[str, Callable[[], float]], seconds: float, references: Sequence[str]) -> pd.DataFrame:
    """Lets all implementations run in turn until the time is over, after one turn that does not count.

    Args:
        rounds: Name -> a function that runs its rounds of one turn and returns the seconds per round.
        seconds: For all turns together; three are taken in any case.
        references: Implementations that all are compared with; those that are not measured are left out.

    Returns:
        A row for each implementation: the median of its milliseconds per round, and for each reference the median over
        the turns of the ratio to it, with quartiles. That is not the ratio of the medians, which other work distorts.
    """
    for run in rounds.values():
        run()
    measured: list[dict[str, float]] = []
    end = time.perf_counter() + seconds
    while len(measured) < FEWEST_TURNS or time.perf_counter() < end:
        measured.append({name: run() for name, run in rounds.items()})
    turns = pd.DataFrame(measured)
    milliseconds = [float(f"{1000 * turns[name].median():.3g}") for name in turns]
    table = pd.DataFrame({"implementation": turns.columns, "ms per round": milliseconds})
    for reference in (name for name in references if name in turns):
        ratios = turns.div(turns[reference], axis=0).quantile([0.25, 0.5, 0.75])
        table[f"times {reference}"] = [f"{r[0.5]:.2f} ({r[0.25]:.2f}–{r[0.75]:.2f})" for _, r in ratios.items()]
    return table.assign(turns=len(turns))


def to_markdown(table: pd.DataFrame) -> str:
    """Returns the table in Markdown."""
    numbers = [column for column, name in enumerate(table) if pd.api.types.is_numeric_dtype(table[name])]
    cells = table.map(lambda cell: cell if isinstance(cell, str) else f"{cell:,.10g}").to_numpy().tolist()
    return markdown([list(table), *cells], right=numbers)


def write_table(table: pd.DataFrame, name: str, command: str, folder: Path) -> None:
    """Writes ``NAME.json``: the rows, the command that made them, when, the commit, the packages and the machine."""
    source = {"command": command, **code_and_time(), "machine": machine()}
    with atomic_write(folder / f"{name}.json") as unfinished:
        unfinished.write_text(json.dumps({**source, "rows": table.to_dict("records")}, indent=1) + "\n")
