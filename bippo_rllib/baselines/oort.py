"""Oort: orders clients by utility and cost, and explores clients that were never tried. NumPy only."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from bippo_rllib.baselines.rule import Rule, numbers
from bippo_rllib.selection.budget_sampler import BUDGET_TOLERANCE
from bippo_rllib.selection.generator import new_generator

EXPLORATION = 0.9  #: share of the first round's places that goes to clients never tried
EXPLORATION_DECAY = 0.98  #: its factor per round
EXPLORATION_MIN = 0.2  #: its lower end
CLIP = 0.95  #: quantile of the utilities above which they count as the quantile
CUT_OFF = 0.95  #: known clients compete for a place from this share of the last utility that would get one
COST_PENALTY = 2.0  #: exponent of what a client that costs more than the preferred cost is scaled down by
PACE = 10  #: the preferred cost at first, as a quantile of all clients' costs in percent
PACER_STEP = 5  #: percent by which the pacer moves it
PACER_ROUNDS = 20  #: rounds of a window of the pacer, which compares the last two
FLAT = 0.1  #: share of the earlier window's utility by which the later may differ for the preferred cost to rise
JUMP = 5.0  #: multiple of the earlier window's utility by which the later must differ for it to fall
WINDOW = 5  #: clients never tried are drawn from the most promising, so many times as many as are wanted
_NEEDS = "Oort needs; with envs.FederatedRounds set with_loss"


class Oort(Rule):
    """Orders clients as Oort's training selector does, by utility and cost.

    After Lai, Zhu, Madhyastha, Chowdhury, "Oort: Efficient Federated Learning via Guided Participant Selection" (OSDI
    2021), arXiv:2010.06081, Algorithm 1, and the published code (github.com/SymbioticLab/Oort). Followed:

    * a client's utility is that of its data times that of its device, known from the rounds in which it trained;
    * data: utilities clipped at the 95th percentile and normalised as in the code, plus ``sqrt(0.1 log(round) / last
      round it trained in)``;
    * device: scaled by ``(T / t) ** 2`` where the client takes ``t > T``, ``T`` being set by the code's pacer;
    * exploitation: draws in proportion to utility among all that reach 95 % of the cut-off utility;
    * exploration: of clients never tried, 0.9 of the places at first, times 0.98 each round, at least 0.2.

    Deviations:

    * ``t`` is what a round costs, in the budget's unit, not how long it takes;
    * a budget replaces the number of participants: a round has as many places as the cheapest clients that
      fit, and picks that do not fit are skipped;
    * the utility of data is ``|B| * mean loss`` for the paper's ``|B| * sqrt(mean loss^2)``, since environments report
      mean losses; the two differ by how much losses vary among the samples of one client. The loss is that of the model
      after the round, not while the client trains;
    * a client that joins later is still explored, while the code explores no more once everyone was tried;
    * a first training of all clients in the environment's ``reset`` does not count as a trial.

    Infos have a client's ``num_samples`` and ``granted_j``, above 0 if it participated in the last step, and of a
    participant the ``loss``, at least 0, and ``failed``, true if its work was lost, so that it counts as not tried.
    Other losses are not read: participants know theirs from training.

    Args:
        seed: Seed of the generator of the draws.
    """

    def __init__(self, seed: int | Sequence[int] | None = None) -> None:
        self._rng = new_generator(seed)
        self._round = 0
        self._exploration = EXPLORATION
        self._pace = PACE
        self._known: dict[str, tuple[float, int]] = {}  # client -> utility and round when it last trained
        self._history: deque[float] = deque(maxlen=2 * PACER_ROUNDS)

    @property
    def has_begun(self) -> bool:
        """Whether a round was ordered, so that feedback counts."""
        return self._round > 0

    def observe(self, clients: Sequence[str], infos: Sequence[Mapping[str, Any]]) -> None:
        """Records the clients that trained in the last round; ignored before the first.

        Raises:
            ValueError: If a number is missing or out of range; the message names the client.
        """
        if not self.has_begun:
            return
        granted = numbers(clients, infos, "granted_j", _NEEDS)
        tried = [i for i, info in enumerate(infos) if granted[i] > 0.0 and not info.get("failed")]
        clients, infos = [clients[i] for i in tried], [infos[i] for i in tried]
        losses = numbers(clients, infos, "loss", _NEEDS)
        with np.errstate(over="ignore"):  # refused below
            utilities = losses * numbers(clients, infos, "num_samples", _NEEDS)
        for client, loss, utility in zip(clients, losses.tolist(), utilities.tolist(), strict=True):
            if loss < 0.0:
                raise ValueError(f"the info of {client!r} has 'loss' = {loss}; a loss is at least 0")
            if not math.isfinite(utility):
                raise ValueError(f"{client!r} has a loss or num_samples too large for a utility")
        by_client = dict(zip(clients, utilities.tolist(), strict=True))
        exploited = [utility for client, utility in by_client.items() if client in self._known]
        self._history.append(float(np.mean(exploited)) if exploited else 0.0)
        self._known |= {client: (utility, self._round) for client, utility in by_client.items()}

    def order(
        self, clients: Sequence[str], infos: Sequence[Mapping[str, Any]], costs: np.ndarray, budget: float
    ) -> Sequence[int]:
        """Orders known clients drawn by utility, then new ones, then the others at random; counts the round."""
        sizes = numbers(clients, infos, "num_samples", _NEEDS)
        self._round += 1
        self._exploration = max(self._exploration * EXPLORATION_DECAY, EXPLORATION_MIN)
        if self._round >= 2 * PACER_ROUNDS and self._round % PACER_ROUNDS == 0:
            self._repace()
        discount = self._cost_discount(costs)
        is_known = np.array([client in self._known for client in clients], dtype=bool)
        known, new = np.flatnonzero(is_known), np.flatnonzero(~is_known)
        places = int(np.count_nonzero(np.cumsum(np.sort(costs)) <= budget * (1.0 + BUDGET_TOLERANCE)))
        exploited = int(places * (1.0 - self._exploration)) if new.size else places
        picks = self._exploit(known, self._scores([clients[i] for i in known.tolist()]) * discount[known], exploited)
        picks += self._explore(new, (sizes * discount)[new], places - len(picks))
        others = np.setdiff1d(np.arange(len(clients)), picks)
        return [*picks, *self._rng.permutation(others).tolist()]

    def get_state(self) -> dict[str, Any]:
        """Returns the records, the pace and the generator's state."""
        return {
            "round": self._round,
            "exploration": self._exploration,
            "pace": self._pace,
            "known": dict(self._known),
            "history": list(self._history),
            "rng": self._rng.bit_generator.state,
        }

    def set_state(self, state: Mapping[str, Any]) -> None:
        """Restores a ``state`` that ``get_state`` returned."""
        known, history = dict(state["known"]), deque(state["history"], maxlen=2 * PACER_ROUNDS)
        moved = state["round"], state["exploration"], state["pace"]
        self._rng.bit_generator.state = state["rng"]  # checked by NumPy, so that nothing is half restored
        self._known, self._history = known, history
        self._round, self._exploration, self._pace = moved

    def _repace(self) -> None:
        history = list(self._history)
        earlier, lately = sum(history[:-PACER_ROUNDS]), sum(history[-PACER_ROUNDS:])
        if abs(lately - earlier) <= FLAT * earlier:
            self._pace = min(100, self._pace + PACER_STEP)
        elif abs(lately - earlier) >= JUMP * earlier:
            self._pace = max(PACER_STEP, self._pace - PACER_STEP)

    def _cost_discount(self, costs: np.ndarray) -> np.ndarray:
        """Returns ``float64[N]``, 1 up to the preferred cost, then ``(preferred / cost) ** COST_PENALTY``."""
        if self._pace >= 100:
            return np.ones(len(costs))
        preferred = np.sort(costs)[min(len(costs) * self._pace // 100, len(costs) - 1)]
        return np.divide(preferred, costs, out=np.ones(len(costs)), where=costs > preferred) ** COST_PENALTY

    def _scores(self, clients: Sequence[str]) -> np.ndarray:
        """Returns ``float64[len(clients)]``, clipped and normalised utility, more the longer ago a client trained."""
        if not clients:
            return np.empty(0)
        utilities, last_rounds = np.array([self._known[client] for client in clients]).T
        clip = np.sort(utilities)[min(int(len(utilities) * CLIP), len(utilities) - 1)]
        low = 0.999 * utilities.min()
        normalised = (np.minimum(utilities, clip) - low) / max(utilities.max() - low, 1e-4)
        return normalised + np.sqrt(0.1 * math.log(self._round) / last_rounds)

    def _exploit(self, known: np.ndarray, scores: np.ndarray, count: int) -> list[int]:
        count = min(count, len(known))
        if count == 0:
            return []
        pool = scores >= CUT_OFF * np.sort(scores)[-count]
        return self._draw(known[pool], scores[pool], count)

    def _explore(self, new: np.ndarray, promise: np.ndarray, count: int) -> list[int]:
        count = min(count, len(new))
        best = np.argsort(-promise, kind="stable")[: WINDOW * count]
        return self._draw(new[best], promise[best], count)

    def _draw(self, indices: np.ndarray, weights: np.ndarray, count: int) -> list[int]:
        """Draws ``count`` of ``indices`` one by one in proportion to ``weights``; those of weight 0 come last."""
        with np.errstate(divide="ignore"):
            keys = np.log(weights) + self._rng.gumbel(size=len(weights))
        return [int(index) for index in indices[np.argsort(-keys, kind="stable")][:count]]
