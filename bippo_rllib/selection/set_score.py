"""Set scores: what a candidate adds to the clients picked so far. NumPy only."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from bippo_rllib.setting_error import shown

#: Indices of the clients picked so far, in the order picked, and ``int64[K]`` of the candidates -> ``float64[K]``.
SetFunction = Callable[[Sequence[int], np.ndarray], np.ndarray]

#: Weight of a set score by default, in logits for each standard deviation.
SET_WEIGHT = 2.0


class SetScore(ABC):
    """Scores what each candidate adds to the clients picked so far.

    The sampler ``odds`` adds ``weight * z`` to a candidate's logit at every pick of a round, ``z`` being the scores
    standardised over the candidates, so that their unit does not matter. A subclass needs ``__call__`` and may read
    infos in ``observe``, which is called once before the picks of every round.

    .. code-block:: python

        class FewerOfATeam(SetScore):
            def observe(self, clients, infos):
                self.teams = [info["team"] for info in infos]

            def __call__(self, chosen, candidates):
                there = [self.teams[i] for i in chosen]
                return np.array([-float(there.count(self.teams[i])) for i in candidates])


        BippoConfig().selection(sampler="odds", set_score=FewerOfATeam)
    """

    def observe(self, clients: Sequence[str], infos: Sequence[Mapping[str, Any]]) -> None:  # noqa: B027
        """Reads the live clients' infos before a round; the indices of this round refer to these sequences.

        Args:
            clients: ``[N]`` names of the clients; one that returns keeps its name.
            infos: ``[N]`` latest info of each.
        """

    @abstractmethod
    def __call__(self, chosen: Sequence[int], candidates: np.ndarray) -> np.ndarray:
        """Scores the candidates of one pick, the higher the better.

        Args:
            chosen: Indices of the clients picked so far, in the order picked; empty at the first pick.
            candidates: ``int64[K]`` indices of the clients that are affordable.

        Returns:
            ``float64[K]``, NaN for a candidate of unknown value, which counts as the average one.
        """

    def get_state(self) -> dict[str, Any]:
        """Returns the state to keep from round to round, as plain Python and NumPy values; empty by default."""
        return {}

    def set_state(self, state: Mapping[str, Any]) -> None:
        """Restores a ``state`` that ``get_state`` returned; a subclass that overrides one overrides both.

        Raises:
            ValueError: If there is something to restore and the subclass restores nothing.
        """
        if state:
            raise ValueError(
                f"the state holds {', '.join(sorted(map(str, state)))}, but {type(self).__name__} restores nothing; "
                "use the set score that the state was saved with, or override set_state beside get_state"
            )


def set_scores(score: SetFunction, chosen: Sequence[int], candidates: np.ndarray) -> np.ndarray:
    """Calls ``score`` with copies, so that it cannot change the selection, and checks what it returns.

    Raises:
        ValueError: If it does not return one number, finite or NaN, for each candidate.
    """
    found = score(list(chosen), candidates.copy())
    try:
        values = np.asarray(found)
        fits = values.shape == candidates.shape and values.dtype.kind in "biuf" and not np.isinf(values).any()
    except (TypeError, ValueError):  # such as lists of different lengths
        fits = False
    if not fits:
        name = getattr(score, "__name__", type(score).__name__)
        raise ValueError(
            f"the set score {name} returned {shown(found)} for {len(candidates)} candidates; expected an array of as "
            "many numbers, finite or NaN where nothing is known"
        )
    return values.astype(np.float64)


def standardised(values: np.ndarray) -> np.ndarray:
    """Returns ``(values - mean) / std`` of ``float64[K]``, ignoring NaN; 0 for NaN, and for all if all are equal."""
    known = ~np.isnan(values)
    if not known.any():
        return np.zeros(len(values))
    all_known = bool(known.all())
    peak = np.abs(values if all_known else values[known]).max()
    if peak > 1e150:  # squares would overflow
        values, peak = values / peak, 1.0
    found = values if all_known else values[known]
    mean, spread = found.mean(), found.std()
    if spread <= 1e-9 * peak:  # nothing but rounding
        return np.zeros(len(values))
    return np.where(known, (values - mean) / spread, 0.0)
