"""Gradient-norm thresholding: no clients whose updates are conspicuously long. NumPy only."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from bippo_rllib.baselines.rule import Rule, affordable, numbers

RECENT = 20  #: latest updates, whose median is the measure of others
AGAIN = 20  #: rounds after which a client that was left out is tried again


class NormFilter(Rule):
    """Selects clients at random, except those whose last update was much longer than the others'.

    After Wilhelm, Yilmaz, Kao, "Noise-aware Client Selection for carbon-efficient Federated Learning via Gradient Norm
    Thresholding" (2026), arXiv:2603.04194: probing rounds measure gradient norms, clients above a threshold count as
    noisy and are left out, and a selection of any kind goes on among the others. How it is read here:

    * the norm is that of the update of a client that trained, per training sample, so that it takes no energy; round
      0, in which all train, is the first probing round;
    * the threshold is ``threshold`` times the median of the last ``RECENT`` such norms, since norms fall as the model
      learns;
    * a client that was left out is tried again ``AGAIN`` rounds after it was measured, at the cost of training it;
    * the selection that goes on is random, within the budget. If no client below the threshold fits it, all
      clients may be drawn.

    Infos have a client's ``num_samples`` and ``update_norm``, in the round after it trained that of its update, else
    None.

    Args:
        threshold: Factor above, larger than 0; at least 1 with ``two_sided``.
        two_sided: Whether clients below the median over ``threshold`` are left out too. Not the publication's: with few
            local steps random labels make short updates, as on digits, and long ones only with many.
        seed: Seed of the draws.

    Raises:
        ValueError: If the threshold is out of range.
    """

    def __init__(
        self,
        *,
        threshold: float = 1.5,
        two_sided: bool = False,
        seed: int | Sequence[int] | None = None,
    ) -> None:
        if not threshold > 0.0:
            raise ValueError(f"threshold is {threshold}; it must be above 0")
        if two_sided and threshold < 1.0:
            raise ValueError(f"threshold is {threshold}; with two_sided it must be at least 1")
        self._threshold, self._two_sided = threshold, two_sided
        self._rng = np.random.default_rng(seed)
        self._recent: list[float] = []
        self._left_out_until: dict[str, int] = {}
        self._round = 0

    def observe(self, clients: Sequence[str], infos: Sequence[Mapping[str, Any]]) -> None:
        """Measures the updates of the clients that trained in the last round."""
        needs = "NormFilter needs; with envs.FederatedRounds set with_update_norm"
        norms = numbers(clients, infos, "update_norm", needs, optional=True)
        norms /= numbers(clients, infos, "num_samples", needs)
        self._measure(
            {client: norm for client, norm in zip(clients, norms.tolist(), strict=True) if not math.isnan(norm)}
        )

    def order(
        self, clients: Sequence[str], infos: Sequence[Mapping[str, Any]], costs: np.ndarray, budget: float
    ) -> Sequence[int]:
        """Draws a random order of the clients that are not left out."""
        accepted = np.array([self._left_out_until.get(client, 0) <= self._round for client in clients], dtype=bool)
        self._round += 1
        if not (accepted & affordable(costs, budget)).any():
            accepted[:] = True
        return self._rng.permutation(np.flatnonzero(accepted)).tolist()

    def get_state(self) -> dict[str, Any]:
        """Returns recent norms, until when clients are left out, the round, and the generator's state."""
        return {
            "recent": list(self._recent),
            "left_out_until": dict(self._left_out_until),
            "round": self._round,
            "rng": self._rng.bit_generator.state,
        }

    def set_state(self, state: Mapping[str, Any]) -> None:
        """Restores a ``state`` that ``get_state`` returned."""
        self._recent, self._left_out_until = list(state["recent"]), dict(state["left_out_until"])
        self._round = state["round"]
        self._rng.bit_generator.state = state["rng"]

    def _measure(self, norms: Mapping[str, float]) -> None:
        if not norms:
            return
        self._recent = [*self._recent, *norms.values()][-max(RECENT, len(norms)) :]
        median = float(np.median(self._recent))
        low, high = median / self._threshold if self._two_sided else 0.0, self._threshold * median
        for client, norm in norms.items():
            self._left_out_until[client] = 0 if low <= norm <= high else self._round + AGAIN
