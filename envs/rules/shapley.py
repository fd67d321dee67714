"""Shapley rewards: each participant of a round is rewarded for its share of what the round changed.

Participant n gets ``sign(d) * (base**|d| - 1)``, ``d`` being its Shapley value (Shapley, "A Value for n-Person Games",
1953; for federated learning Wang et al., "A Principled Approach to Data Valuation for Federated Learning", 2020) in the
game whose coalitions are sets of participants: the value of a coalition is the mean accuracy of the model averaged over
it, that of the empty one the accuracy before the round. The values of a round add up to its change of the mean
accuracy. A participant's leave-one-out effect, in contrast, depends on whom it trained with: of two clients with wrong
data that are selected together, neither may have one.

Up to three participants the values are exact, the mean over all orders in which they could have come: 2 evaluations of
a model for two participants, 6 for three. For more, ``shapley_pairs`` pairs of an order and its reverse are drawn
(antithetic permutations, Mitchell et al., "Sampling Permutations for Shapley Value Estimation", 2022), which take
``2 * (participants - 1)`` evaluations a pair. Draws depend on seed, episode and round alone.

Who evaluates, and how it is charged, is as with ``leave_one_out``, but for ``2 * shapley_pairs`` evaluations for each
participant, which is never less than there are.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence

from envs.rng import RoundKey, keyed_rng

#: Participants up to which all orders are looked at.
EXACT = 3

Coalition = frozenset[int]
Order = tuple[int, ...]


def orders(participants: Sequence[int], key: RoundKey, pairs: int) -> list[Order]:
    """Returns the orders to average over: all of up to ``EXACT`` participants, else ``pairs`` of draws and reverses."""
    if len(participants) <= EXACT:
        return list(itertools.permutations(participants))
    rng = keyed_rng("shapley", key.seed, key.episode, key.round)
    drawn = [tuple(rng.permutation(participants).tolist()) for _ in range(pairs)]
    return [order for forth in drawn for order in (forth, forth[::-1])]


def coalitions(orders: Iterable[Order]) -> list[Coalition]:
    """Returns the coalitions to evaluate: all that begin an order, each once, but not the empty and the full one."""
    begun = (frozenset(order[:size]) for order in orders for size in range(1, len(order)))
    return list(dict.fromkeys(begun))


def shapley_values(orders: Sequence[Order], values: Mapping[Coalition, float]) -> dict[int, float]:
    """Returns each participant's mean marginal contribution over ``orders``.

    Args:
        orders: Of the same participants.
        values: The value of each coalition that begins an order, the empty one and all participants included.
    """
    sums = dict.fromkeys(sorted(orders[0]), 0.0) if orders else {}
    for order in orders:
        for size, client in enumerate(order):
            sums[client] += values[frozenset(order[: size + 1])] - values[frozenset(order[:size])]
    return {client: total / len(orders) for client, total in sums.items()}
