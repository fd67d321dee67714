"""Decisions of a search's scheduler, kept in the results folder for a resumed search. Works without Ray."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path

from pydantic import PositiveInt, TypeAdapter

JOURNAL_FILE = "asha.jsonl"


@dataclass(frozen=True)
class Decision:
    """At ``iteration`` a trial had ``value``, and was stopped or not in comparison with its ``method`` and ``seed``."""

    trial: str
    method: str
    seed: int
    iteration: PositiveInt
    value: float
    stop: bool


_DECISION = TypeAdapter(Decision)


def append_decision(path: Path, decision: Decision) -> None:
    """Appends one line; the newline comes first, so that a line that a kill cut short does not spoil the next."""
    with path.open("a") as file:
        file.write(f"\n{json.dumps(asdict(decision))}")


def read_decisions(path: Path) -> list[Decision]:
    """Returns all decisions in order, none if there is no file; leaves out lines that were cut short."""
    try:
        lines = path.read_text(errors="replace").splitlines()
    except FileNotFoundError:
        return []
    return [decision for line in lines if (decision := _decision(line)) is not None]


def stopped_trials(results_dir: Path) -> dict[str, int]:
    """Returns the round after which each trial was stopped early, by its name."""
    decisions = read_decisions(results_dir / JOURNAL_FILE)
    return {decision.trial: decision.iteration for decision in decisions if decision.stop}


def _decision(line: str) -> Decision | None:
    try:
        return _DECISION.validate_json(line)
    except ValueError:
        return None
