"""Who joined and left after which round, from rows: a client is live in a round if the row's `clients` names it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

_MOST_DRAWN = 10


@dataclass(frozen=True)
class Moment:
    """At the end of `round`, so that it shows in the round after: client ids that joined and left, ascending."""

    round: int
    joined: tuple[int, ...]
    left: tuple[int, ...]

    @property
    def signs(self) -> str:
        """+2, −1 or +2 −1."""
        return " ".join([f"+{len(self.joined)}"] * bool(self.joined) + [f"−{len(self.left)}"] * bool(self.left))

    @property
    def words(self) -> str:
        """`2 clients join after round 100`."""
        parts = [_count(ids, verb) for ids, verb in ((self.joined, "join"), (self.left, "leave")) if ids]
        return f"{' and '.join(parts)} after round {self.round}"


@dataclass(frozen=True)
class Churn:
    """What came and went in a study.

    `moments` is that of all trials together; `same_in_all` is False where it is random and differs from trial to trial.
    """

    moments: tuple[Moment, ...]
    same_in_all: bool
    joins_per_trial: float
    leaves_per_trial: float

    @property
    def first_round(self) -> int:
        """The first round that some change shows in."""
        return self.moments[0].round + 1

    @property
    def drawable(self) -> bool:
        """Few enough, and the same in all trials."""
        return self.same_in_all and len(self.moments) <= _MOST_DRAWN

    @property
    def words(self) -> str:
        """For a heading."""
        if self.drawable:
            return ", ".join(moment.words for moment in self.moments)
        return (
            f"clients come and go from round {self.first_round} on, "
            f"{self.joins_per_trial:.1f} joins and {self.leaves_per_trial:.1f} leaves per trial"
        )


def trial_moments(rows: pd.DataFrame) -> list[Moment]:
    """The changes of one trial, from its rows ordered by round."""
    live = [np.asarray(clients) for clients in rows["clients"]]
    rounds = rows["round"].tolist()
    moments = [
        Moment(int(rounds[i]), _only_in(live[i + 1], live[i]), _only_in(live[i], live[i + 1]))
        for i in range(len(live) - 1)
        if not np.array_equal(live[i], live[i + 1])
    ]
    return [moment for moment in moments if moment.joined or moment.left]


def find_churn(rows: pd.DataFrame) -> Churn | None:
    """The changes of all trials, or None where nobody ever joins or leaves."""
    found = [(len(trial), trial_moments(trial)) for _, trial in rows.groupby("trial", sort=False)]
    every = sorted({moment for _, moments in found for moment in moments}, key=lambda m: (m.round, m.joined, m.left))
    if not every:
        return None
    # A trial that is still running knows nothing of what comes after its last round.
    same = all(moments == [moment for moment in every if moment.round < length] for length, moments in found)
    return Churn(
        moments=tuple(every),
        same_in_all=same,
        joins_per_trial=_mean_count([moments for _, moments in found], "joined"),
        leaves_per_trial=_mean_count([moments for _, moments in found], "left"),
    )


def _count(clients: Sequence[int], verb: str) -> str:
    return f"{len(clients)} clients {verb}" if len(clients) > 1 else f"1 client {verb}s"


def _only_in(these: np.ndarray, not_those: np.ndarray) -> tuple[int, ...]:
    return tuple(int(client) for client in np.setdiff1d(these, not_those))


def _mean_count(found: Sequence[Sequence[Moment]], name: str) -> float:
    return float(np.mean([sum(len(getattr(moment, name)) for moment in moments) for moments in found]))
