"""What a scenario is: data, clients, devices, budget, rounds, target, and what the paper prints for it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any

from envs.agent_ids import client_names
from envs.rules.churn import JOIN, LEAVE, ChurnEvent


@dataclass(frozen=True)
class PaperResult:
    """What the paper's summary table prints for one method; None where it prints a dash."""

    rounds_to_target: float | None  #: Mean over seeds, in rounds.
    rounds_to_target_std: float | None  #: Its standard deviation.
    mean_accuracy: float  #: A share of 1, of what the scenario's ``paper_accuracy`` names.
    #: Its size fits all rounds of all seeds, though the paper does not define it; reports compare it with that.
    accuracy_std: float


@dataclass(frozen=True)
class Scenario:
    """A named setting."""

    name: str
    description: str
    federation: Mapping[str, Any]  #: Keywords of ``envs.parallel_env`` but rounds, seed, data_dir and churn.
    rounds: int  #: FL rounds of a run.
    target_accuracy: float  #: Of "rounds to target", a share of 1.
    paper_section: str | None = None  #: Where the paper has it.
    paper: Mapping[str, PaperResult] = field(default_factory=dict)  #: What the paper prints, by method.
    paper_accuracy: str = "mean accuracy"  #: What the accuracies in ``paper`` are.
    churn: tuple[ChurnEvent, ...] = ()  #: Of a run of ``rounds`` rounds; in a shorter or longer one in proportion.
    pretrained_on: str | None = None  #: Scenario of the same clients whose policies ``--init-from`` is meant to take.

    def __post_init__(self) -> None:
        object.__setattr__(self, "federation", MappingProxyType(dict(self.federation)))
        object.__setattr__(self, "paper", MappingProxyType(dict(self.paper)))

    def federation_for(self, rounds: int) -> dict[str, Any]:
        """Returns keywords of ``envs.parallel_env`` for so many rounds, without ``rounds``, ``seed``, ``data_dir``."""
        return {**self.federation, "churn": self.churn_for(rounds)} if self.churn else dict(self.federation)

    def churn_for(self, rounds: int) -> tuple[ChurnEvent, ...]:
        """Returns the events of a run of ``rounds`` rounds, each after the same share of them, rounded down.

        Raises:
            ValueError: If an event would come before the first round.
        """
        scaled = tuple(replace(event, round=event.round * rounds // self.rounds) for event in self.churn)
        early = next((event for event, new in zip(self.churn, scaled, strict=True) if new.round < 1), None)
        if early is not None:
            least = -(-self.rounds // early.round)
            raise ValueError(
                f"{rounds} rounds are too few for {self.name}, where clients {early.kind} after round {early.round} of "
                f"{self.rounds}; run at least {least} rounds"
            )
        return scaled

    def describe_churn(self, rounds: int) -> str:
        """Returns a sentence about who joins and leaves in a run of ``rounds`` rounds; empty if no client does."""
        events = self.churn_for(rounds)
        moments = sorted({(event.round, event.kind) for event in events})
        return "; ".join(_describe_moment(moment, events, self.federation["num_clients"]) for moment in moments)


def _describe_moment(moment: tuple[int, str], events: Sequence[ChurnEvent], num_clients: int) -> str:
    names = client_names(num_clients)
    round_number, kind = moment
    who = [names[event.client] for event in events if (event.round, event.kind) == moment]
    verb = {JOIN: "join", LEAVE: "leave"}[kind] + ("s" if len(who) == 1 else "")
    return f"{' and '.join(who)} {verb} after round {round_number}"
