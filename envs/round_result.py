"""The result of one FL round."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True)
class RoundResult:
    """One FL round as it goes into the rows of a run.

    Attributes:
        round: Number of the round, from 1.
        mean_accuracy: Unweighted mean of ``accuracies``.
        reward: The team's reward, over the clients that stay; with ``leave_one_out`` and ``shapley``
            the mean over ``trained``.
        rewards: ``[N]`` reward of each of ``clients``.
        energy_j: Joules spent: by the clients that trained or failed, and on probing and selecting.
        budget_j: Joules the round was allowed to spend.
        clients: Client ids live in the round, ascending.
        costs_j: ``[N]`` joules the round cost or would have cost each of ``clients``, credit for its reward and
            learning from it included.
        trained: Client ids that trained, ascending; if empty, the model is unchanged.
        dropped: Client ids selected and turned down, as the budget did not suffice, ascending.
        joined: Client ids that joined at the end of the round, ascending; not among ``clients``.
        departed: Client ids that left at the end of the round, ascending; among ``clients``.
        accuracies: ``[N]`` accuracy of the new global model on the test set of each of ``clients``.
        fl_seconds: Wall time of training, aggregation and evaluation; not part of equality.
        probing_j: Joules of ``energy_j`` that all of ``clients`` spent on reporting their losses or accuracies.
        failed: Client ids whose training failed (``on_client_failure="drop"``), ascending; they are not in
            ``trained``, and ``energy_j`` counts them.
        selection_j: Joules of ``energy_j`` that selecting, and learning from clients that trained or failed, took.
        measured_j: Joules that ``energy_meter`` read while clients trained; None with the formula, if no client trained
            or if a reading is missing. Not part of equality.
        meter_warnings: What was wrong with ``energy_meter`` for the first time in the round, or in round 0 before it.
            Not part of equality.
    """

    round: int
    mean_accuracy: float
    reward: float
    rewards: tuple[float, ...]
    energy_j: float
    budget_j: float
    clients: tuple[int, ...]
    costs_j: tuple[float, ...]
    trained: tuple[int, ...]
    dropped: tuple[int, ...]
    joined: tuple[int, ...]
    departed: tuple[int, ...]
    accuracies: tuple[float, ...]
    fl_seconds: float = field(compare=False)
    probing_j: float = 0.0
    failed: tuple[int, ...] = ()
    selection_j: float = 0.0
    measured_j: float | None = field(default=None, compare=False)
    meter_warnings: tuple[str, ...] = field(default=(), compare=False)

    @property
    def own_rewards(self) -> dict[int, float]:
        """Returns the reward of each client that trained, by client."""
        return {
            client: reward for client, reward in zip(self.clients, self.rewards, strict=True) if client in self.trained
        }
