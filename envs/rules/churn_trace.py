"""Reads a churn schedule from a CSV file with one stay of one client a line.

An example::

    client,join_round,leave_round
    0,0,150
    3,100,
    0,180,

Client 0 is live from the start, leaves after round 150 and returns after round 180; client 3 joins after round 100 and
stays. A client without a line is live throughout. Lines may be in any order, and empty; a trace may be longer than the
run.

| Column | Value |
|---|---|
| ``client`` | id, from 0 |
| ``join_round`` | the round at whose end it joins; 0 if it is live at the start |
| ``leave_round`` | the round at whose end it leaves, above ``join_round``; empty if it stays |
"""

from __future__ import annotations

import csv
import itertools
import os
from typing import NamedTuple

from envs.rules.churn import JOIN, LEAVE, ChurnEvent

HEADER = ("client", "join_round", "leave_round")


class _Stay(NamedTuple):
    client: int
    join_round: int
    leave_round: int | None
    where: str


def read_trace(path: str | os.PathLike[str], num_clients: int) -> tuple[ChurnEvent, ...]:
    """The events of a trace file, by client and round.

    Args:
        path: The file, as this module's docstring describes it; UTF-8.
        num_clients: Clients of the federation.

    Raises:
        ValueError: If the file cannot be read or a line is wrong; the message has file and line number.
    """
    stays = sorted(_read_stays(path, num_clients), key=lambda stay: (stay.client, stay.join_round))
    for earlier, later in itertools.pairwise(stays):
        _check_gap(earlier, later)
    events: list[ChurnEvent] = []
    for stay in stays:
        if stay.join_round > 0:
            events.append(ChurnEvent(stay.join_round, stay.client, JOIN))
        if stay.leave_round is not None:
            events.append(ChurnEvent(stay.leave_round, stay.client, LEAVE))
    return tuple(events)


def _read_stays(path: str | os.PathLike[str], num_clients: int) -> list[_Stay]:
    try:
        with open(path, newline="", encoding="utf-8-sig") as file:
            lines = csv.reader(file)
            found = tuple(cell.strip() for cell in next(lines, ()))
            if found != HEADER:
                raise ValueError(f"{path}, line 1: the header is {','.join(found)!r}; it must be {','.join(HEADER)!r}")
            return [_parse(cells, f"{path}, line {lines.line_num}", num_clients) for cells in lines if any(cells)]
    except OSError as error:
        raise ValueError(f"churn_trace {path} cannot be read: {error.strerror or error}") from error
    except (UnicodeDecodeError, csv.Error) as error:
        raise ValueError(f"churn_trace {path} is not a CSV file in UTF-8: {error}") from error


def _parse(cells: list[str], where: str, num_clients: int) -> _Stay:
    if len(cells) != len(HEADER):
        raise ValueError(f"{where}: {len(cells)} values; there must be {len(HEADER)}: {','.join(HEADER)}")
    client, join_round = (_whole(cell, name, where) for cell, name in zip(cells[:2], HEADER[:2], strict=True))
    leave_round = _whole(cells[2], HEADER[2], where) if cells[2].strip() else None
    if client >= num_clients:
        raise ValueError(f"{where}: client is {client}; there are num_clients={num_clients}, from 0")
    if leave_round is not None and leave_round <= join_round:
        raise ValueError(f"{where}: leave_round is {leave_round}; it must be above join_round, {join_round}")
    return _Stay(client, join_round, leave_round, where)


def _whole(cell: str, name: str, where: str) -> int:
    text = cell.strip()
    if not (text.isascii() and text.isdigit()):
        raise ValueError(f"{where}: {name} is {text!r}; it must be a whole number of at least 0")
    return int(text)


def _check_gap(earlier: _Stay, later: _Stay) -> None:
    if earlier.client == later.client and (earlier.leave_round is None or later.join_round <= earlier.leave_round):
        end = "stays" if earlier.leave_round is None else f"leaves after round {earlier.leave_round}"
        raise ValueError(
            f"{later.where}: client {later.client} joins after round {later.join_round}, but by "
            f"{earlier.where.rpartition(', ')[2]} it {end}; a client returns in a later round than it left"
        )
