"""Settings that say which clients join and leave, and when."""

from __future__ import annotations

from dataclasses import dataclass

from envs.checks import SettingError
from envs.rules.churn import ChurnEvent, ChurnSchedule, MarkovChurn, ScheduledChurn, check_events
from envs.rules.churn_trace import read_trace
from envs.settings.setting import PATH, SHARE, number_or_one_per_client, setting, tuple_of
from envs.settings.training import TrainingSettings


@dataclass(frozen=True)
class PresenceSettings(TrainingSettings):
    """Which clients join and leave, and when."""

    churn: tuple[ChurnEvent, ...] = setting(
        (),
        tuple_of("ChurnEvent(round, client, 'join' or 'leave')"),
        """An event for each time a client joins or leaves at the end of a round from 1 to ``rounds - 1``, in any order.
        A client whose first event is a join is absent before it; all others are live at the start.""",
    )
    churn_trace: str | None = setting(
        None,
        PATH,
        """Instead of ``churn``: a CSV file of stays, read on construction and again where the rounds run. See
        ``envs.rules.churn_trace``.""",
    )
    churn_leave_rate: float | tuple[float, ...] = setting(
        0.0,
        number_or_one_per_client(SHARE),
        """Instead of either: the probability that a live client leaves at the end of a round. All are live at the
        start.""",
    )
    churn_return_rate: float | tuple[float, ...] = setting(
        0.0,
        number_or_one_per_client(SHARE),
        "The probability that a client that left returns at the end of a round.",
    )

    def churn_schedule(self) -> ChurnSchedule:
        """Returns who joins and leaves when; reads ``churn_trace``.

        Raises:
            ValueError: If it is given in two ways, or the trace cannot be read.
        """
        rates = {name: self._rates(name) for name in ("churn_leave_rate", "churn_return_rate")}
        random = [name for name, values in rates.items() if any(values)][:1]
        ways = [name for name in ("churn", "churn_trace") if getattr(self, name)] + random
        if len(ways) > 1:
            both = f"{ways[1]} is given too; choose one way to set who joins and leaves"
            raise SettingError(ways[0], getattr(self, ways[0]), both)
        if random:
            leave, come_back = rates.values()
            if not any(leave):
                alone = "with churn_leave_rate=0 no client leaves and none can return; give both, or neither"
                raise SettingError("churn_return_rate", self.churn_return_rate, alone)
            return MarkovChurn(leave, come_back)
        events = self.churn
        if self.churn_trace:
            events = read_trace(self.churn_trace, self.num_clients)
        else:
            check_events(events, self.num_clients, self.rounds)
        return ScheduledChurn(events, self.num_clients, self.rounds)

    def _rates(self, name: str) -> tuple[float, ...]:
        value = getattr(self, name)
        return value if isinstance(value, tuple) else (value,) * self.num_clients
