"""What a run knows: between two rounds, and within one."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from flwr.app import ArrayRecord
from flwr.serverapp.strategy import Result

from bippo_rllib.federated.flower.coalition_models import CoalitionModels
from bippo_rllib.federated.flower.evaluations import Evaluations
from bippo_rllib.federated.flower.history import Record
from bippo_rllib.federated.flower.node_reports import NodeReports
from bippo_rllib.federated.reports import ClientReport


@dataclass
class RunState:
    """What a run knows between two rounds.

    Attributes:
        arrays: The model.
        last_round: The latest round that is complete; 0 before the first.
        latest: What the nodes reported last.
        trained: Clients whose training counted in the latest round; None before the first.
        has_model: Whether any round has made a model.
        profiles: By client, its update profile, until the selector has seen it.
    """

    arrays: ArrayRecord
    last_round: int = 0
    latest: NodeReports = field(default_factory=NodeReports)
    trained: list[Any] | None = None
    has_model: bool = False
    profiles: dict[Any, np.ndarray] = field(default_factory=dict)


@dataclass
class Round:
    """What is known of the round that is going on.

    Attributes:
        number: Counted from 1.
        arrays: The model before the round.
        reports: What the selector went by.
        scores: What the selector picked by, by client.
        selected: Clients that the training was sent to.
        trained: Clients whose training counted.
        coalitions: Makes the models of some of them, if effects are learned from.
        made: The model that the round made; None if it made none.
        profiles: Those that the selector has not seen.
    """

    number: int
    arrays: ArrayRecord
    reports: dict[Any, ClientReport] = field(default_factory=dict)
    scores: Mapping[Any, float] = field(default_factory=dict)
    selected: list[Any] = field(default_factory=list)
    trained: list[Any] = field(default_factory=list)
    coalitions: CoalitionModels | None = None
    made: ArrayRecord | None = None
    profiles: dict[Any, np.ndarray] = field(default_factory=dict)

    @property
    def costs_j(self) -> dict[Any, float]:
        """What each selected client costs."""
        return {client: self.reports[client].cost_j for client in self.selected}

    def records(self, after: NodeReports, effects: Mapping[Any, float]) -> list[Record]:
        """Returns a record of each client that was available, given the evaluation after the round, sorted."""
        return [
            {
                "round": self.number,
                "client": client if isinstance(client, int | str) else str(client),
                "cost_j": report.cost_j,
                "accuracy": after.reports[client].accuracy if client in after.reports else None,
                "score": _finite(self.scores.get(client)),
                "selected": client in self.selected,
                "trained": client in self.trained,
                "effect": effects.get(client),
            }
            for client, report in sorted(self.reports.items(), key=lambda item: str(item[0]))
        ]


def _finite(score: float | None) -> float | None:
    """Returns the score; None for infinity, which JSON lacks and by which rankings mark who is no candidate."""
    return score if score is not None and math.isfinite(score) else None


@dataclass
class Running:
    """A call of ``start``: its evaluations, the state after the latest round, and the round that is going on."""

    evaluations: Evaluations
    state: RunState
    rounds_before: int  #: complete before this call of ``start``; Flower counts from 1 in each
    round: Round | None = None


def first_records(evaluation: NodeReports) -> list[Record]:
    """Returns the records of the evaluation before the first round."""
    before = Round(0, ArrayRecord(), evaluation.reports)
    return before.records(evaluation, {})


def renumber(result: Result, rounds_before: int) -> None:
    """Counts the rounds of a result from the first of the run, where Flower counts those of the call."""
    for name in ("train_metrics_clientapp", "evaluate_metrics_clientapp", "evaluate_metrics_serverapp"):
        setattr(result, name, {rounds_before + number: metrics for number, metrics in getattr(result, name).items()})
