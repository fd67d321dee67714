"""Heuristic selection: clients ranked by a number in their infos, such as Power-of-Choice."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from bippo_rllib.selection.connector_columns import finite_info_values
from bippo_rllib.selection.generator import new_generator
from bippo_rllib.selection.suggestion_connector import SuggestionConnector


class InfoRanking(SuggestionConnector):
    """Replaces each agent's participation suggestion by a number from its info.

    Pipeline: module-to-env, before the ``BudgetSamplerConnector``, where ``BippoConfig.selection(score_key=...)`` puts
    it. Needs in the batch: ``participation_suggestion`` of every agent. Needs in every agent's latest info: the score,
    and the size if there are candidates. Writes ``participation_suggestion``: the score, negated if the lowest comes
    first, and ``-inf``, the sampler's "not a candidate", for all others.

    With ``candidates`` it is Power-of-Choice as published (Cho et al. 2020, "Client Selection in Federated Learning:
    Convergence Analysis and Power-of-Choice Selection Strategies", arXiv:2010.01243): first ``draw_candidates``, then
    the highest local losses among them. A budget replaces the paper's fixed number of clients.

    Args:
        score_key: Info key to rank by; a finite number in every info.
        highest_first: Whether the highest comes first; else the lowest.
        candidates: Size of the candidate set; None makes every agent a candidate and draws nothing.
        size_key: Info key of the agent's data size, to which its chance of being drawn is proportional.
        seed: Seed of the generator of the draws.
    """

    def __init__(
        self,
        score_key: str = "loss",
        highest_first: bool = True,
        candidates: int | None = None,
        size_key: str = "num_samples",
        seed: int | Sequence[int] | None = None,
    ) -> None:
        super().__init__()
        self.score_key, self._size_key = score_key, size_key
        self.highest_first = highest_first
        self.candidates = candidates
        self._rng = new_generator(seed)

    def scores(
        self, suggestions: np.ndarray, agents: Sequence[str], infos: Mapping[str, Mapping[str, Any]]
    ) -> np.ndarray:
        """Returns the numbers in the infos; of suggestions it is only used who is excluded."""
        named_by = "BippoConfig.selection(score_key=...)"
        scores = (1.0 if self.highest_first else -1.0) * finite_info_values(infos, agents, self.score_key, named_by)
        if self.candidates is not None:
            sizes = finite_info_values(infos, agents, self._size_key, "BippoConfig.selection(size_key=...)")
            drawn = draw_candidates(np.where(suggestions == -np.inf, 0.0, sizes), self.candidates, self._rng)
            scores = np.where(np.isin(np.arange(len(agents)), drawn), scores, -np.inf)
        return scores

    def get_state(self, components: Any = None, *, not_components: Any = None, **kwargs: Any) -> dict[str, Any]:
        """Returns the state of the generator of the draws."""
        return {"rng": self._rng.bit_generator.state}

    def set_state(self, state: Mapping[str, Any]) -> None:
        """Restores the state that ``get_state`` returned; an empty one, which RLlib may pass, changes nothing."""
        if state:
            self._rng.bit_generator.state = state["rng"]


def draw_candidates(sizes: np.ndarray, count: int, rng: np.random.Generator) -> np.ndarray:
    """Draws a candidate set without replacement, each draw in proportion to the sizes of those left.

    Args:
        sizes: ``float64[N]`` data sizes of at least 0; one of size 0 is never drawn.
        count: Number of candidates, at least 1; all agents if there are fewer.
        rng: Generator of the draws.

    Returns:
        ``int64[min(count, agents of positive size)]`` indices.

    Raises:
        ValueError: If a size is negative.
    """
    if (sizes < 0.0).any():
        raise ValueError(f"an agent's data size is {sizes.min()}; it must be at least 0")
    count = min(count, int(np.count_nonzero(sizes)))
    if count == 0:
        return np.empty(0, dtype=np.int64)
    return rng.choice(len(sizes), size=count, replace=False, p=sizes / sizes.sum())
