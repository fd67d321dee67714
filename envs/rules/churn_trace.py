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
import io
import itertools
import os
from pathlib import Path
from typing import NamedTuple

from envs.checks import printable
from envs.rules.churn import JOIN, LEAVE, ChurnEvent

HEADER = ("client", "join_round", "leave_round")
#: Room for a million stays; a trace is read whole.
MAX_BYTES = 2**24

_MAX_DIGITS = 18  # below 2**63


class _Stay(NamedTuple):
    client: int
    join_round: int
    leave_round: int | None
    line: int


def read_trace(path: str | os.PathLike[str], num_clients: int) -> tuple[ChurnEvent, ...]:
    """Reads the events of a trace file, sorted by client and round.

    Args:
        path: The file, as this module's docstring describes it; UTF-8.
        num_clients: Clients of the federation.

    Raises:
        ValueError: If the file cannot be read or a line is wrong; the message has file and line number.
    """
    name = printable(os.fspath(path))
    stays = sorted(_read_stays(path, name, num_clients), key=lambda stay: (stay.client, stay.join_round))
    for earlier, later in itertools.pairwise(stays):
        _check_gap(earlier, later, name)
    events: list[ChurnEvent] = []
    for stay in stays:
        if stay.join_round > 0:
            events.append(ChurnEvent(stay.join_round, stay.client, JOIN))
        if stay.leave_round is not None:
            events.append(ChurnEvent(stay.leave_round, stay.client, LEAVE))
    return tuple(events)


def _read_stays(path: str | os.PathLike[str], name: str, num_clients: int) -> list[_Stay]:
    try:
        lines = csv.reader(io.StringIO(_content(Path(path), name).decode("utf-8-sig"), newline=""))
        found = ",".join(cell.strip() for cell in next(lines, ()))
        if found != ",".join(HEADER):
            raise ValueError(f"{name}, line 1: the header is {_quoted(found)}; it must be {','.join(HEADER)!r}")
        return [_parse(cells, lines.line_num, name, num_clients) for cells in lines if any(cells)]
    except OSError as error:
        raise ValueError(f"churn_trace {name} cannot be read: {error.strerror or error}") from error
    except (UnicodeDecodeError, csv.Error) as error:
        raise ValueError(f"churn_trace {name} is not a CSV file in UTF-8: {error}") from error


def _content(path: Path, name: str) -> bytes:
    if path.exists() and not path.is_file():
        raise ValueError(f"churn_trace {name} is no regular file; name a CSV file")  # a pipe would be waited for
    with path.open("rb") as file:
        content = file.read(MAX_BYTES + 1)
    if len(content) > MAX_BYTES:
        raise ValueError(f"churn_trace {name} has more than {MAX_BYTES >> 20} MiB; expected one stay a line")
    return content


def _parse(cells: list[str], line: int, name: str, num_clients: int) -> _Stay:
    where = f"{name}, line {line}"
    if len(cells) != len(HEADER):
        raise ValueError(f"{where}: {len(cells)} values; there must be {len(HEADER)}: {','.join(HEADER)}")
    client, join_round = (_whole(cell, column, where) for cell, column in zip(cells[:2], HEADER[:2], strict=True))
    leave_round = _whole(cells[2], HEADER[2], where) if cells[2].strip() else None
    if client >= num_clients:
        raise ValueError(f"{where}: client is {client}; there are num_clients={num_clients}, from 0")
    if leave_round is not None and leave_round <= join_round:
        raise ValueError(f"{where}: leave_round is {leave_round}; it must be above join_round, {join_round}")
    return _Stay(client, join_round, leave_round, line)


def _whole(cell: str, column: str, where: str) -> int:
    text = cell.strip()
    if not (text.isascii() and text.isdigit()):
        raise ValueError(f"{where}: {column} is {_quoted(text)}; it must be a whole number of at least 0")
    if len(text) > _MAX_DIGITS:
        raise ValueError(f"{where}: {column} has {len(text)} digits; it must have at most {_MAX_DIGITS}")
    return int(text)


def _quoted(text: str) -> str:
    return repr(text if len(text) <= 60 else f"{text[:60]}...")


def _check_gap(earlier: _Stay, later: _Stay, name: str) -> None:
    if earlier.client == later.client and (earlier.leave_round is None or later.join_round <= earlier.leave_round):
        end = "stays" if earlier.leave_round is None else f"leaves after round {earlier.leave_round}"
        raise ValueError(
            f"{name}, line {later.line}: client {later.client} joins after round {later.join_round}, but by "
            f"line {earlier.line} it {end}; a client returns in a later round than it left"
        )
