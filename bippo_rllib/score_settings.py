"""What the sampler goes by beside the policies' suggestions: the settings of ``BippoConfig`` for it."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from bippo_rllib.portable_config import PortableConfig
from bippo_rllib.selection.set_score import SetScore

if TYPE_CHECKING:
    from typing_extensions import Self


class ScoreSettings(PortableConfig):
    """The part of ``BippoConfig`` that says where scores come from: a ranking, a prior, a set term."""

    def __init__(self, algo_class: type | None = None) -> None:
        super().__init__(algo_class=algo_class)
        self.score_key: str | None = None
        self.highest_first = True
        self.candidates: int | None = None
        self.size_key = "num_samples"
        self.prior_key = "accuracy"
        self.prior_weight = 0.0
        self.prior_gain = 1.0
        self.prior_only_lowers = False
        self.set_score: Callable[[], SetScore] | None = None
        self.set_weight = 0.0

    def rank_by(
        self,
        score_key: str = "loss",
        *,
        highest: bool = True,
        candidates: int | None = None,
        size_key: str = "num_samples",
    ) -> Self:
        """Ranks clients by a number in their infos instead of by the policies' suggestions, see ``InfoRanking``.

        Power-of-Choice, with nothing to train:
        ``.rank_by("loss").training(sampler="greedy").multi_agent(policies_to_train=[])``.

        Args:
            score_key: Info key to rank by.
            highest: Whether the highest comes first; else the lowest.
            candidates: Rank only this many clients, drawn without replacement in proportion to their data size; None
                ranks all.
            size_key: Info key of a client's data size; read only if candidates are drawn.
        """
        return self._set(score_key=score_key, highest_first=highest, candidates=candidates, size_key=size_key)

    def prior(
        self, key: str = "accuracy", *, weight: float = 2.0, gain: float = 1.0, only_lowers: bool = False
    ) -> Self:
        """Adds to the policies' suggestions how representative each client is, see ``RepresentativenessPrior``.

        ``suggestion <- sigmoid(gain * logit(suggestion) + weight * z)``. Ours, not the paper's, and off by default.
        Made for ``training(sampler="odds")``. With ``CentralPPOConfig`` the suggestion is the client's share.

        Args:
            key: Info key of a number that every agent reports after ``reset`` and every step, such as its accuracy.
            weight: Of ``z``, how closely the client's reports followed the mean so far, standardised over the live
                clients. 0 turns the prior off; below 0 the unrepresentative come first.
            gain: Of the policies' logits; at 0 the prior decides alone.
            only_lowers: If True, suggestions above one half count as one half: what is learned only turns clients down
                and does not narrow the choice among the others.
        """
        return self._set(prior_key=key, prior_weight=weight, prior_gain=gain, prior_only_lowers=only_lowers)

    def set_term(self, score: Callable[[], SetScore], *, weight: float = 2.0) -> Self:
        """Lets the sampler ``odds`` look at what a client would add to those picked so far, see ``SetScore``.

        Each pick is drawn in proportion to ``exp(logit(suggestion) + weight * z)``. Ours, not the paper's, and off by
        default.

        Args:
            score: Makes the score, such as a subclass of ``SetScore`` or ``functools.partial(UpdateMatching, ...)``.
            weight: Of ``z``, the score standardised over the candidates of a pick. 0 turns it off.
        """
        return self._set(set_score=score, set_weight=weight)
