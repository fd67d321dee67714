"""Clients that join and leave. Events of round r take effect after it: they change who is live in round r+1.

Clients join and leave by ``churn``, ``churn_trace`` or ``churn_leave_rate``, at the end of a round: one that
joins after round r is live from round r+1 on, one that leaves took part in round r. The step of round r returns entries
for the agents that were live in it and for those that join. After the last round no client joins or leaves.

- *Leaves*: if it was selected, it trained, its joules are spent and its update counts. It gets the reward and a last
  observation and info, and is truncated. Its accuracy is in ``last_round.mean_accuracy``, no longer in the mean that
  agents observe, unless no client is live any more.
- *Joins*: it is evaluated on the new model and gets an observation and info, reward 0 and "trained" 0. Samples are
  assigned to all clients in ``reset``; absent ones train in no round, round 0 included.
- *Returns*: in a later round, with the same samples, as another agent. ``possible_agents`` holds all agents known so
  far: with ``churn`` and ``churn_trace`` those of the whole episode; with rates it grows. ``reset`` starts again.
- *Budget*: it stays the same in joules. If it suffices for no live client, none trains: the model is unchanged, the
  reward is 0 and ``last_round.trained`` is empty.
- *All leave*: the episode ends, even if others would have joined later. Joins in the very step keep it going.

A client has one or more *stays*. Its first is agent ``client_003``, later ones are ``client_003#1``, ``client_003#2``.
NumPy only.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import NamedTuple, Protocol

import numpy as np

from envs.checks import SettingError, one_of, whole
from envs.rng import keyed_rng

JOIN, LEAVE = "join", "leave"


@dataclass(frozen=True)
class ChurnEvent:
    """At the end of ``round`` (from 1), ``client`` does ``kind``: ``join`` or ``leave``."""

    round: int
    client: int
    kind: str


class Changes(NamedTuple):
    """Client ids that join and leave at the end of a round, both ascending."""

    joined: tuple[int, ...] = ()
    departed: tuple[int, ...] = ()


class ChurnSchedule(Protocol):
    """Decides which clients join and leave; holds nothing that changes.

    Attributes:
        live_at_start: Client ids live in round 0, ascending.
        num_stays: ``int64[num_clients]`` stays in an episode as far as they are known beforehand.
    """

    live_at_start: tuple[int, ...]
    num_stays: np.ndarray

    def changes(self, live: Sequence[int], seed: int, episode: int, round_index: int) -> Changes:
        """Returns the changes at the end of ``round_index``, given who was live in it."""

    def check_live(self, live: Sequence[int], round_index: int) -> None:
        """Raises ``ValueError`` if ``live`` cannot be the live clients after ``round_index``."""


class ScheduledChurn:
    """Events that are known beforehand; the same in every episode, whatever the seed.

    A client whose first event is a join is absent before it; every other client is live at the start.

    Args:
        events: In any order, as ``check_events`` accepts them.
        num_clients: Clients, live or not.
        rounds: Rounds of an episode; events after its last but one round never come about.

    Raises:
        ValueError: If no client is live at the start.
    """

    def __init__(self, events: Sequence[ChurnEvent], num_clients: int, rounds: int) -> None:
        self._by_round: dict[int, list[ChurnEvent]] = {}
        first: dict[int, str] = {}
        for event in sorted(events, key=attrgetter("round", "client")):
            self._by_round.setdefault(event.round, []).append(event)
            first.setdefault(event.client, event.kind)
        self.live_at_start = tuple(client for client in range(num_clients) if first.get(client) != JOIN)
        if not self.live_at_start:
            raise ValueError("no client is live at the start; let at least one be there before its first event")
        self.num_stays = np.zeros(num_clients, dtype=np.int64)
        self.num_stays[list(self.live_at_start)] = 1
        for event in events:
            self.num_stays[event.client] += event.kind == JOIN and event.round < rounds

    def changes(self, live: Sequence[int], seed: int, episode: int, round_index: int) -> Changes:
        """Returns the changes that the events say; see ``ChurnSchedule``."""
        events = self._by_round.get(round_index, ())
        return Changes(*(tuple(e.client for e in events if e.kind == kind) for kind in (JOIN, LEAVE)))

    def check_live(self, live: Sequence[int], round_index: int) -> None:
        """Raises ``ValueError`` if the events lead to other live clients; see ``ChurnSchedule``."""
        expected = set(self.live_at_start)
        for round_done in range(1, round_index + 1):
            joined, departed = self.changes((), 0, 0, round_done)
            expected = expected.difference(departed).union(joined)
        odd = sorted({*live} ^ expected)
        if odd:
            raise ValueError(
                f"the state has another churn schedule: after round {round_index} client {odd[0]} is "
                f"{'live' if odd[0] in live else 'absent'} in it and not here; use the same configuration"
            )


class MarkovChurn:
    """Every client is live at the start and leaves and returns at random, independently of all others.

    The draw of a client is a function of (seed, episode, round, client) alone.

    Args:
        leave_rates: ``[num_clients]`` probability that a live client leaves at the end of a round.
        return_rates: ``[num_clients]`` probability that an absent client returns at the end of a round.
    """

    def __init__(self, leave_rates: Sequence[float], return_rates: Sequence[float]) -> None:
        self._leave_rates, self._return_rates = np.array(leave_rates), np.array(return_rates)
        self.live_at_start = tuple(range(len(leave_rates)))
        self.num_stays = np.ones(len(leave_rates), dtype=np.int64)

    def changes(self, live: Sequence[int], seed: int, episode: int, round_index: int) -> Changes:
        """Draws the changes; see ``ChurnSchedule``."""
        is_live = np.zeros(len(self.num_stays), dtype=bool)
        is_live[list(live)] = True
        # The k-th draw is client k's, whatever the number of clients.
        draws = keyed_rng("churn", seed, episode, round_index).random(len(is_live))
        joined = np.flatnonzero(~is_live & (draws < self._return_rates))
        departed = np.flatnonzero(is_live & (draws < self._leave_rates))
        return Changes(tuple(joined.tolist()), tuple(departed.tolist()))

    def check_live(self, live: Sequence[int], round_index: int) -> None:
        """Accepts all clients, as any may be live."""


def check_events(events: Sequence[ChurnEvent], num_clients: int, rounds: int) -> None:
    """Refuses events that cannot happen.

    Raises:
        ValueError: With the event: out of range, a second one of its client in one round, the join of a live client or
            the leave of an absent one.
    """
    for event in events:
        if not isinstance(event, ChurnEvent):
            raise SettingError("churn", events, "it must hold ChurnEvent(round, client, 'join' or 'leave')")
        one_of(f"kind of {event}", event.kind, (JOIN, LEAVE))
        whole(f"round of {event}", event.round, least=1)
        whole(f"client of {event}", event.client, least=0)
        if event.round >= rounds or event.client >= num_clients:
            raise ValueError(
                f"{event} is outside the run; it takes effect after its round, so rounds go from 1 to {rounds - 1}, "
                f"clients from 0 to {num_clients - 1}"
            )
    latest: dict[int, ChurnEvent] = {}
    for event in sorted(events, key=attrgetter("round", "client")):
        _check_order(latest.get(event.client), event)
        latest[event.client] = event


def _check_order(before: ChurnEvent | None, event: ChurnEvent) -> None:
    """``before`` is the event of the same client that comes before ``event``."""
    if before is None:
        return
    if before.round == event.round:
        raise ValueError(
            f"client {event.client} has two events in round {event.round}; a client joins or leaves once a round, "
            "move one of them"
        )
    if before.kind == event.kind:
        what, opposite = ("live", LEAVE) if event.kind == JOIN else ("absent", JOIN)
        raise ValueError(
            f"{event}: the client is {what} since round {before.round}; add its {opposite} between the two, "
            "or drop this event"
        )
