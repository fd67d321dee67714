"""What one FL round did."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True)
class RoundResult:
    """One FL round as it goes into the rows of a run.

    Attributes:
        round: Number of the round, from 1.
        mean_accuracy: Unweighted mean of ``accuracies``.
        reward: The team's reward.
        energy_j: Joules spent by the clients that trained.
        budget_j: Joules the round was allowed to spend.
        selected: Client ids that trained, ascending.
        dropped: Client ids turned down because they did not fit the budget, ascending.
        accuracies: ``[N]`` accuracy of the new global model on each live client's test set.
        fl_seconds: Wall time of training, aggregation and evaluation; not part of equality.
    """

    round: int
    mean_accuracy: float
    reward: float
    energy_j: float
    budget_j: float
    selected: tuple[int, ...]
    dropped: tuple[int, ...]
    accuracies: tuple[float, ...]
    fl_seconds: float = field(compare=False)
