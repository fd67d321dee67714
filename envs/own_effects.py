"""What each participant of a round changed by itself, for the rewards ``leave_one_out`` and ``shapley``."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from torch import Tensor

from envs.rng import RoundKey
from envs.rules.reward import SHAPLEY
from envs.rules.shapley import Coalition, coalitions, orders, shapley_values
from envs.training import aggregation
from envs.training.aggregation import WeightedSum


class OwnEffects:
    """Evaluates the models of some participants alone, then says what each of them changed.

    Args:
        reward: ``leave_one_out`` or ``shapley``.
        updates: Each participant's sum; one whose training failed has no samples and no effect.
        key: Of the round.
        shapley_pairs: Pairs of orders that ``shapley`` draws.
        accuracy: The mean accuracy of flat weights, over the clients that evaluate.
        before: That of the model before the round.
        average: Makes a model of the updates of some participants; None for their mean.
    """

    def __init__(
        self,
        reward: str,
        updates: Mapping[int, WeightedSum],
        key: RoundKey,
        shapley_pairs: int,
        accuracy: Callable[[Tensor], float],
        before: float,
        average: Callable[[Mapping[int, WeightedSum]], Tensor] | None = None,
    ) -> None:
        self._participants = sorted(client for client, update in updates.items() if update.num_samples)
        self._everybody: Coalition = frozenset(self._participants)
        self._orders = orders(self._participants, key, shapley_pairs) if reward == SHAPLEY else None
        self._values = {frozenset[int](): before}
        needed = [coalition for coalition in self._needed() if coalition not in self._values]
        if needed:
            model_of = average or _means(updates, self._participants)
            for coalition in needed:
                self._values[coalition] = accuracy(model_of({client: updates[client] for client in coalition}))

    def given(self, complete: float) -> dict[int, float]:
        """Returns the effect of each participant, given the mean accuracy of the round's model."""
        if not self._participants:
            return {}
        values = {**self._values, self._everybody: complete}
        if self._orders is not None:
            return shapley_values(self._orders, values)
        return {client: complete - values[self._everybody - {client}] for client in self._participants}

    def _needed(self) -> list[Coalition]:
        if self._orders is not None:
            return coalitions(self._orders)
        return [self._everybody - {client} for client in self._participants]


def _means(
    updates: Mapping[int, WeightedSum], participants: Sequence[int]
) -> Callable[[Mapping[int, WeightedSum]], Tensor]:
    """Makes models that are the mean of some participants' updates."""
    total = aggregation.merged(updates[client] for client in participants)
    return lambda some: aggregation.mean(_sum_over(frozenset(some), updates, total))


def _sum_over(coalition: Coalition, updates: Mapping[int, WeightedSum], total: WeightedSum) -> WeightedSum:
    """The sum over a coalition: what is less to add, its members, or the others, which ``total`` is then less."""
    others = sorted(client for client, update in updates.items() if update.num_samples and client not in coalition)
    if len(coalition) <= len(others):
        return aggregation.merged(updates[client] for client in sorted(coalition))
    return aggregation.minus(total, aggregation.merged(updates[client] for client in others))
