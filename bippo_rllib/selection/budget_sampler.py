"""The budget sampler (paper, Algorithm 1): scores and costs in, clients that fit the budget out. NumPy only."""

from __future__ import annotations

from collections.abc import Sequence
from numbers import Real
from typing import Any

import numpy as np

from bippo_rllib.selection.generator import new_generator
from bippo_rllib.selection.set_score import SET_WEIGHT, SetFunction, set_scores, standardised
from bippo_rllib.setting_error import SettingError

#: Rounding slack of the budget check. The environment and the rows use the same bound, ``budget * (1 + 1e-9)``.
BUDGET_TOLERANCE = 1e-9

STRATEGIES = ("epsilon_greedy", "stochastic", "odds", "greedy", "random")


class BudgetSampler:
    """Picks clients one by one until nothing affordable is left.

    A client is affordable while ``spent + cost <= budget * (1 + 1e-9)``. One that does not fit is skipped, so the
    selection is maximal, no client left out would still fit, unless ``outside_odds`` is set. Ties are broken by a
    random draw.

    A score of ``-inf`` means "not a candidate": such a client is never picked, by no strategy and in no exploration,
    even if the budget then stays unspent.

    Strategies, per pick among the affordable clients:

    * ``epsilon_greedy`` (BIPPO): with probability epsilon a uniformly random one, else the highest score;
    * ``stochastic`` (IPPO, PPO): drawn in proportion to the scores, uniformly if all of them are 0;
    * ``odds`` (not the paper's): drawn in proportion to the odds ``p / (1 - p)`` of the scores, which must be
      probabilities. Each pick is a softmax over logits, so that the order picked is a Plackett-Luce draw (Luce,
      "Individual Choice Behavior", 1959; Plackett, "The Analysis of Permutations", 1975) under a budget. Clients with
      score 1, whose odds are infinite, come first, and those with score 0 last, in random order among themselves.
      With ``outside_odds`` above 0 spending no more is one of the choices from the second pick on, the outside option
      of a logit choice model (McFadden, "Conditional Logit Analysis of Qualitative Choice Behavior", 1974), so that
      the rest of a budget is not spent on clients with low scores. A set score adds ``set_weight * z`` to the
      logits of every pick (``SetScore``); whether to spend more is decided without it;
    * ``greedy`` (FPPO, Power-of-Choice): always the highest score;
    * ``random`` (FedAvg): uniformly, whatever the scores.

    ``epsilon`` is the current rate; the other arguments but the seed are attributes of the same name.

    Args:
        strategy: One of the above.
        epsilon: Initial exploration rate, in [0, 1]. Used by ``epsilon_greedy`` only, as are the next two.
        epsilon_decay: Factor applied to epsilon once per ``select`` with ``explore=True``, in (0, 1].
        epsilon_min: Epsilon never decays below this, in [0, 1].
        outside_odds: Odds of spending no more, finite and at least 0: 1 is the odds of a client with score 0.5. Used by
            ``odds`` only; 0 spends as much as fits.
        set_weight: Weight of a set score that ``select`` is given, in logits for each standard deviation. Used by
            ``odds`` only; without a set score it changes nothing.
        seed: Seed of the sampler's generator (int, sequence of ints, ``SeedSequence`` or None).

    Raises:
        ValueError: If an argument is outside its range; the message names it.
    """

    def __init__(
        self,
        strategy: str = "epsilon_greedy",
        *,
        epsilon: float = 1.0,
        epsilon_decay: float = 0.9,
        epsilon_min: float = 0.05,
        outside_odds: float = 0.0,
        set_weight: float = SET_WEIGHT,
        seed: int | Sequence[int] | np.random.SeedSequence | None = None,
    ) -> None:
        if strategy not in STRATEGIES:
            raise SettingError("sampler strategy", strategy, f"choose one of {', '.join(STRATEGIES)}")
        self.epsilon = epsilon
        self.epsilon_decay = checked_rate("epsilon_decay", epsilon_decay)
        self.epsilon_min = checked_rate("epsilon_min", epsilon_min)
        if epsilon_decay == 0.0:
            raise SettingError("epsilon_decay", 0, "it must be above 0 (use strategy 'greedy' for no exploration)")
        if not _is_number(outside_odds) or not 0.0 <= outside_odds < np.inf:
            raise SettingError("outside_odds", outside_odds, "it must be a finite number of at least 0")
        if not _is_number(set_weight) or not np.isfinite(set_weight):
            raise SettingError("set_weight", set_weight, "it must be a finite number")
        self.strategy = strategy
        self.outside_odds = float(outside_odds)
        self.set_weight = float(set_weight)
        self._rng = new_generator(seed)

    @property
    def epsilon(self) -> float:
        """The current exploration rate, in [0, 1]; setting another one raises a ``SettingError``."""
        return self._epsilon

    @epsilon.setter
    def epsilon(self, value: float) -> None:
        self._epsilon = checked_rate("epsilon", value)

    def select(
        self,
        scores: np.ndarray | Sequence[float],
        costs: np.ndarray | Sequence[float],
        budget: float,
        explore: bool = True,
        *,
        names: Sequence[str] | None = None,
        set_score: SetFunction | None = None,
    ) -> np.ndarray:
        """Selects clients for one round.

        Args:
            scores: ``[N]`` such as participation suggestions; any order-preserving score will do, ``-inf`` for a client
                that is no candidate. ``stochastic`` needs the others finite and at least 0, ``odds`` in [0, 1].
            costs: ``[N]`` cost of each client in the unit of the budget, at least 0. A client of infinite cost is
                never picked.
            budget: What the round may spend in all, at least 0; ``math.inf`` lifts the limit.
            explore: If False, ``epsilon_greedy``, ``stochastic`` and ``odds`` take the likeliest choice of each pick,
                spending no more among them if its odds are above those of every client, and epsilon does not decay;
                ``random`` stays random.
            names: ``[N]`` client names for error messages; indices are used without them.
            set_score: Scores what each candidate adds to the clients picked so far; ``odds`` only.

        Returns:
            ``int64[K]`` indices of the selected clients in the order picked.

        Raises:
            ValueError: For NaN scores, NaN or negative costs or budget, and for scores a strategy cannot use; the
                message names the client. For a set score with another strategy than ``odds``.
        """
        if set_score is not None and self.strategy != "odds":
            raise ValueError(f"a set score needs the sampler strategy 'odds', this is {self.strategy!r}")
        scores, costs = _checked(scores, costs, budget, self.strategy, names)
        selected = self._picks(scores, costs, float(budget), explore, set_score)
        if explore and self.strategy == "epsilon_greedy":
            self.epsilon = max(self.epsilon * self.epsilon_decay, min(self.epsilon, self.epsilon_min))
        return np.asarray(selected, dtype=np.int64)

    def get_state(self) -> dict[str, Any]:
        """Returns epsilon and the generator's state."""
        return {"epsilon": self.epsilon, "rng": self._rng.bit_generator.state}

    def set_state(self, state: dict[str, Any]) -> None:
        """Restores the ``state`` that ``get_state`` returned.

        Raises:
            ValueError: If its epsilon is outside [0, 1]. Nothing is changed then.
        """
        epsilon = checked_rate("epsilon", state["epsilon"])
        self._rng.bit_generator.state = state["rng"]
        self.epsilon = epsilon

    def _picks(
        self, scores: np.ndarray, costs: np.ndarray, budget: float, explore: bool, set_score: SetFunction | None
    ) -> list[int]:
        limit = budget * (1.0 + BUDGET_TOLERANCE)
        remaining = np.isfinite(costs) & (scores > -np.inf)
        spent = 0.0
        selected: list[int] = []
        while True:
            affordable = np.flatnonzero(remaining & (spent + costs <= limit))
            if affordable.size == 0 or (selected and self._spends_no_more(scores[affordable], explore)):
                return selected
            if set_score is None:
                pick = int(self._pick(scores, affordable, explore))
            else:
                pick = int(self._pick_beside(selected, scores, affordable, explore, set_score))
            remaining[pick] = False
            spent += float(costs[pick])
            selected.append(pick)

    def _spends_no_more(self, scores: np.ndarray, explore: bool) -> bool:
        if self.strategy != "odds" or self.outside_odds == 0.0:
            return False
        with np.errstate(over="ignore"):
            odds = np.exp(log_odds(scores))
            if not explore:
                return bool(odds.max() < self.outside_odds)
            return bool(self._rng.random() * (self.outside_odds + odds.sum()) < self.outside_odds)

    def _pick(self, scores: np.ndarray, affordable: np.ndarray, explore: bool) -> int:
        if self.strategy == "random":
            return self._rng.choice(affordable)
        if explore and self.strategy == "epsilon_greedy" and self._rng.random() < self.epsilon:
            return self._rng.choice(affordable)
        eligible_scores = scores[affordable]
        if explore and self.strategy in _WEIGHTS:
            weights = _WEIGHTS[self.strategy](eligible_scores)
            return self._rng.choice(affordable, p=weights / weights.sum())
        return self._best(eligible_scores, affordable)

    def _pick_beside(
        self,
        selected: Sequence[int],
        scores: np.ndarray,
        affordable: np.ndarray,
        explore: bool,
        set_score: SetFunction,
    ) -> int:
        z = standardised(set_scores(set_score, selected, affordable))
        logits = log_odds(scores[affordable]) + self.set_weight * z
        if not explore:
            return self._best(logits, affordable)
        weights = _softmax(logits)
        return self._rng.choice(affordable, p=weights / weights.sum())

    def _best(self, scores: np.ndarray, affordable: np.ndarray) -> int:
        best = affordable[scores == scores.max()]
        return best[0] if best.size == 1 else self._rng.choice(best)


def log_odds(probabilities: np.ndarray) -> np.ndarray:
    """Returns ``log(p / (1 - p))`` of ``float64[N]`` probabilities, accurate close to 0 (``-inf``) and 1 (``inf``)."""
    with np.errstate(divide="ignore"):
        return np.log(probabilities) - np.log1p(-probabilities)


def _scaled_scores(scores: np.ndarray) -> np.ndarray:
    # Scaled by the largest first: the sum of many huge, or the share of many tiny scores stays finite.
    peak = scores.max()
    return scores / peak if peak > 0.0 else np.ones(scores.size)


def _scaled_odds(scores: np.ndarray) -> np.ndarray:
    return _softmax(log_odds(scores))


def _softmax(logits: np.ndarray) -> np.ndarray:
    """Returns the softmax without its normalisation; the largest weight is 1."""
    peak = logits.max()
    if np.isinf(peak):  # then only scores of 1 count, or all scores are 0
        return (logits == peak).astype(np.float64)
    return np.exp(logits - peak)


_WEIGHTS = {"stochastic": _scaled_scores, "odds": _scaled_odds}


def checked_rate(name: str, value: Any) -> float:
    """Returns a rate as a float; raises a ``SettingError`` under its name if it is no number in [0, 1]."""
    if not _is_number(value) or not 0.0 <= value <= 1.0:
        raise SettingError(name, value, "it must be a number in [0, 1]")
    return float(value)


def _is_number(value: Any) -> bool:
    return isinstance(value, Real) and not isinstance(value, bool)


def _checked(
    scores: Any, costs: Any, budget: float, strategy: str, names: Sequence[str] | None
) -> tuple[np.ndarray, np.ndarray]:
    scores = np.asarray(scores, dtype=np.float64)
    costs = np.asarray(costs, dtype=np.float64)
    if scores.ndim != 1 or scores.shape != costs.shape:
        raise ValueError(f"scores have shape {scores.shape} and costs {costs.shape}; both must be [num_clients]")
    if np.isnan(budget) or budget < 0.0:
        raise ValueError(f"the budget is {budget}; it must be at least 0 (math.inf for no limit)")
    _refuse(np.isnan(costs) | (costs < 0.0), costs, "cost", "at least 0", names)
    _refuse(np.isnan(scores), scores, "score", "a number", names)
    if strategy == "stochastic":
        unfit = (scores == np.inf) | ((scores < 0.0) & (scores > -np.inf))
        _refuse(unfit, scores, "score", "finite and at least 0 to draw from (-inf for no candidate)", names)
    if strategy == "odds":
        unfit = (scores > 1.0) | ((scores < 0.0) & (scores > -np.inf))
        _refuse(unfit, scores, "score", "a probability in [0, 1] to have odds (-inf for no candidate)", names)
    return scores, costs


def _refuse(bad: np.ndarray, values: np.ndarray, what: str, expected: str, names: Sequence[str] | None) -> None:
    if bad.any():
        index = int(np.flatnonzero(bad)[0])
        who = names[index] if names is not None else f"agent {index}"
        raise ValueError(f"{who} has {what} {values[index]}; it must be {expected} ({int(bad.sum())} such agents)")
