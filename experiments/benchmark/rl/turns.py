"""Contestants that take turns: what else the machine does, and how fast it is just then, hits all of them alike."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Protocol

from experiments.benchmark.rl.free_rounds import PAIR
from experiments.benchmark.rl.process import ContestantProcess
from experiments.benchmark.rl.rows import Case, Checkpoint, Pair

#: The first runs on caches that the others have filled; a turn lasts seconds all the same.
PAIRS_PER_TURN = 5


class Contestant(Protocol):
    """``Contestant`` of ``measure.py`` or ``ContestantProcess``."""

    build_s: float

    def pairs(self, count: int) -> list[Pair]: ...  # noqa: D102
    def end(self) -> Checkpoint: ...  # noqa: D102
    def close(self) -> None: ...  # noqa: D102


@dataclass
class Record:
    """What a contestant has shown."""

    case: Case
    build_s: float
    turns: list[list[Pair]] = field(default_factory=list)  #: Pairs of rounds by turn; none where it was not its turn.
    checkpoint: Checkpoint | None = None  #: None until it has ended.


def run_in_turns(
    cases: Sequence[Case], start: Callable[[Case], Contestant] = ContestantProcess
) -> tuple[list[Record], list[str]]:
    """Lets a contestant for each case run its rounds, a share of them in each turn.

    Returns:
        The records of those that went through, and a sentence for each that failed; it takes no more turns.
    """
    contestants: dict[Case, Contestant] = {}
    records: dict[Case, Record] = {}
    failures: list[str] = []

    @contextmanager
    def noted(case: Case) -> Iterator[None]:
        try:
            yield
        except RuntimeError as error:
            failures.append(f"{case.implementation} with {case.num_clients:,} clients, {case.rule} trained: {error}")
            records.pop(case, None)

    turns = max(1, max(case.rounds for case in cases) // PAIR // PAIRS_PER_TURN)
    try:
        for case in cases:
            _say(f"{case.num_clients:,} clients: {case.implementation} is built")
            with noted(case):
                contestants[case] = start(case)
                records[case] = Record(case, contestants[case].build_s)
        for turn in range(turns):
            _say(f"{cases[0].num_clients:,} clients: turn {turn + 1} of {turns}")
            for case in list(records):
                count = _share(case.rounds // PAIR, turn, turns)
                with noted(case):
                    records[case].turns.append(contestants[case].pairs(count) if count else [])
        for case in list(records):
            with noted(case):
                records[case].checkpoint = contestants[case].end()
    finally:
        _say("")
        for contestant in contestants.values():
            contestant.close()
    return list(records.values()), failures


def _share(pairs: int, turn: int, turns: int) -> int:
    """How many of ``pairs`` are run in a turn, so that over all turns they are spread evenly."""
    return pairs * (turn + 1) // turns - pairs * turn // turns


def _say(text: str) -> None:
    """In the terminal's last line, in the place of what was said before."""
    if sys.stderr.isatty():
        print(f"\r\033[K{text}", end="", file=sys.stderr, flush=True)
