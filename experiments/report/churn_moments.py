"""Who joined and left after which round, from rows: a client is live in a round if the row's ``clients`` names it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd

_MOST_DRAWN = 10


@dataclass(frozen=True, order=True)
class Moment:
    """Client ids, ascending, that joined and left at the end of ``round``, so that it shows in the round after."""

    round: int
    joined: tuple[int, ...]
    left: tuple[int, ...]

    @property
    def label(self) -> str:
        """``+2``, ``−1`` or ``+2 −1``, for a figure."""
        return " ".join(f"{sign}{len(ids)}" for sign, ids in (("+", self.joined), ("−", self.left)) if ids)

    def __str__(self) -> str:
        changes = ((len(self.joined), "join"), (len(self.left), "leave"))
        parts = [f"{n} clients {verb}" if n > 1 else f"1 client {verb}s" for n, verb in changes if n]
        return f"{' and '.join(parts)} after round {self.round}"


@dataclass(frozen=True)
class Churn:
    """The joins and leaves of a study."""

    moments: tuple[Moment, ...]  #: Those of all trials together.
    same_in_all: bool  #: False where churn is random and differs from trial to trial.
    joins_per_trial: float  #: Mean number of clients that joined.
    leaves_per_trial: float  #: Mean number of clients that left.

    @property
    def first_round(self) -> int:
        """The first round that some change shows in."""
        return self.moments[0].round + 1

    @property
    def drawable(self) -> bool:
        """Few enough moments, and the same in all trials."""
        return self.same_in_all and len(self.moments) <= _MOST_DRAWN

    def __str__(self) -> str:
        if self.drawable:
            return ", ".join(map(str, self.moments))
        return (
            f"clients come and go from round {self.first_round} on, "
            f"{self.joins_per_trial:.1f} joins and {self.leaves_per_trial:.1f} leaves per trial"
        )


def find_churn(rows: pd.DataFrame) -> Churn | None:
    """Returns the changes of all trials, or None where no client ever joins or leaves."""
    found = [(len(trial), trial_moments(trial)) for _, trial in rows.groupby("trial", sort=False)]
    every = [moment for _, moments in found for moment in moments]
    if not every:
        return None
    moments = sorted(set(every))
    return Churn(
        moments=tuple(moments),
        # A trial that is still running knows nothing of what comes after its last round.
        same_in_all=all(own == [moment for moment in moments if moment.round < length] for length, own in found),
        joins_per_trial=sum(len(moment.joined) for moment in every) / len(found),
        leaves_per_trial=sum(len(moment.left) for moment in every) / len(found),
    )


def trial_moments(rows: pd.DataFrame) -> list[Moment]:
    """Returns the changes of one trial, from its rows ordered by round."""
    live = rows["clients"].tolist()
    steps = zip(rows["round"], live, live[1:], strict=False)
    return [
        Moment(int(end), *(tuple(np.setdiff1d(*pair).tolist()) for pair in ((after, now), (now, after))))
        for end, now, after in steps
        if not np.array_equal(now, after)
    ]
