"""Leave-one-out rewards: each participant of a round is rewarded for its own effect on the model.

Participant n gets ``sign(d) * (base**|d| - 1)``, ``d`` being the mean accuracy of the round's model minus that of the
model averaged over the other participants; if there is no other, of the model before the round. Both means are over the
same clients: those live in the round, or ``credit_clients`` of them, drawn anew in every round. Clients that did not
train, or failed to, get 0.
These are difference rewards (Wolpert and Tumer 2001, *Optimal payoff functions for members of
collectives*) in the paper's power form less its jump from -1 to 1 at 0, so that an effect too small to be distinguished
from noise gives next to nothing; nothing is trained twice.

With ``probing_epochs`` above 0 the evaluation is charged as probing is: to a participant's cost comes that many local
epochs' computing energy of each client that evaluates the model without it (downloads are free, as the paper's are). So
a cost covers all that the participant causes, every check of the budget holds as it is, and a client that does not
train causes none. The model before the round is known already; a single participant is charged all the same, since a
cost is reported before clients are selected. Who evaluates in the next round is drawn when the costs are reported. The
budget in joules does not depend on the reward.
"""

from __future__ import annotations

from collections.abc import Sequence

from envs.rng import RoundKey, keyed_rng


def drawn_clients(live: Sequence[int], number: int | None, key: RoundKey) -> tuple[int, ...]:
    """Returns the ``live`` clients that evaluate in a round: ``number`` of them; all if None or if there are no more.

    The draw depends on ``key`` and ``live`` alone.
    """
    if number is None or number >= len(live):
        return tuple(live)
    drawn = keyed_rng("credit clients", key.seed, key.episode, key.round).choice(len(live), number, replace=False)
    return tuple(live[index] for index in sorted(drawn.tolist()))
