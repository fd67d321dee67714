"""Which clients joined and left after which round: a client is live in a round if the row's ``clients`` names it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple, TypeAlias

import pandas as pd

_MOST_DRAWN = 10
#: Ids of the clients that joined and that left.
Change: TypeAlias = tuple[frozenset[int], frozenset[int]]


class Churn(NamedTuple):
    """The joins and leaves of a study."""

    first_round: int  #: The first round that a change shows in.
    text: str  #: When how many clients join and leave.
    marks: Mapping[int, str]  #: Round -> such as ``+2 −1``; empty where trials differ, or there are many.


def find_churn(rows: pd.DataFrame) -> Churn | None:
    """Returns the changes of all trials, or None where no client ever joins or leaves."""
    trials = [(len(trial), trial_changes(trial)) for _, trial in rows.groupby("trial", sort=False)]
    most = max((changes for _, changes in trials), key=len)
    if not most:
        return None
    first_round = 1 + min(min(changes) for _, changes in trials if changes)
    # Nothing is known of a trial after its last round.
    same_in_all = all(
        changes == {end: change for end, change in most.items() if end < length} for length, changes in trials
    )
    if same_in_all and len(most) <= _MOST_DRAWN:
        text = ", ".join(f"{_in_words(change)} after round {end}" for end, change in most.items())
        return Churn(first_round, text, {end: _mark(change) for end, change in most.items()})
    every = [change for _, changes in trials for change in changes.values()]
    joins, leaves = (sum(map(len, ids)) / len(trials) for ids in zip(*every, strict=True))
    text = f"clients come and go from round {first_round} on, {joins:.1f} joins and {leaves:.1f} leaves per trial"
    return Churn(first_round, text, {})


def trial_changes(rows: pd.DataFrame) -> dict[int, Change]:
    """Returns round -> what changes at its end, which shows in the round after; of one trial, ordered by round."""
    live = [frozenset(clients) for clients in rows["clients"]]
    steps = zip(rows["round"], live, live[1:], strict=False)
    return {int(end): (after - now, now - after) for end, now, after in steps if now != after}


def _in_words(change: Change) -> str:
    counts = zip(map(len, change), ("join", "leave"), strict=True)
    return " and ".join(f"{n} clients {verb}" if n > 1 else f"1 client {verb}s" for n, verb in counts if n)


def _mark(change: Change) -> str:
    return " ".join(f"{sign}{len(ids)}" for sign, ids in zip("+−", change, strict=True) if ids)
