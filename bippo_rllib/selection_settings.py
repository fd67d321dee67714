"""How a ``BippoConfig`` selects agents: the sampler, and the scores that it samples by."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from ray.rllib.algorithms.algorithm_config import NotProvided

from bippo_rllib.portable_config import PortableConfig
from bippo_rllib.selection.budget_sampler import BudgetSampler
from bippo_rllib.selection.set_score import SET_WEIGHT, SetScore

if TYPE_CHECKING:
    from typing_extensions import Self


class SelectionSettings(PortableConfig):
    """The part of ``BippoConfig`` that says how agents are selected."""

    def __init__(self, algo_class: type | None = None) -> None:
        super().__init__(algo_class=algo_class)
        sampler = BudgetSampler()
        self.sampler = sampler.strategy
        self.epsilon = sampler.epsilon
        self.epsilon_decay = sampler.epsilon_decay
        self.epsilon_min = sampler.epsilon_min
        self.outside_odds = sampler.outside_odds
        self.score_key: str | None = None
        self.highest_first = True
        self.candidates: int | None = None
        self.size_key = "num_samples"
        self.prior_key = "accuracy"
        self.prior_weight = 0.0
        self.prior_gain = 1.0
        self.prior_only_lowers = False
        self.prior_standardised = True
        self.set_score: Callable[[], SetScore] | None = None
        self.set_weight = SET_WEIGHT

    def selection(
        self,
        *,
        sampler: str = NotProvided,
        epsilon: float = NotProvided,
        epsilon_decay: float = NotProvided,
        epsilon_min: float = NotProvided,
        outside_odds: float = NotProvided,
        score_key: str | None = NotProvided,
        highest_first: bool = NotProvided,
        candidates: int | None = NotProvided,
        size_key: str = NotProvided,
        prior_key: str = NotProvided,
        prior_weight: float = NotProvided,
        prior_gain: float = NotProvided,
        prior_only_lowers: bool = NotProvided,
        prior_standardised: bool = NotProvided,
        set_score: Callable[[], SetScore] | None = NotProvided,
        set_weight: float = NotProvided,
    ) -> Self:
        """Sets how agents are selected: the sampler, and the scores that it samples by.

        By default agents are scored by the suggestions of their policies. A ranking replaces the suggestions, a prior
        adjusts them, and a set score rates what an agent adds to those already selected; each is off by default.

        .. code-block:: python

            config.selection(epsilon_decay=0.99)  # BIPPO, exploring for longer
            config.selection(sampler="greedy", score_key="loss")  # Power-of-Choice
            config.selection(sampler="odds", prior_weight=2.0)  # representative clients first
            config.selection(sampler="odds", set_score=UpdateMatching)  # complements

        Args:
            sampler: ``epsilon_greedy`` (BIPPO), ``stochastic`` (IPPO), ``odds``, ``greedy`` or ``random``, see
                ``BudgetSampler``.
            epsilon: Initial exploration rate of ``epsilon_greedy``, which alone reads this and the next two.
            epsilon_decay: Factor applied to epsilon after each step.
            epsilon_min: Epsilon never decays below this.
            outside_odds: Odds of ending the selection before the budget is spent; sampler ``odds`` only. Without
                exploration the selection ends where they are above the odds of every agent left.
            score_key: Ranks agents by the number under this info key instead of by the policies' suggestions, see
                ``InfoRanking``; None for no ranking.
            highest_first: Whether the ranking begins with the highest number.
            candidates: Size of a candidate set, drawn without replacement in proportion to data size, to which the
                ranking is limited; None ranks all agents.
            size_key: Info key of an agent's data size; read only if candidates are drawn.
            prior_key: Info key of a number that every agent reports after ``reset`` and every step, such as its
                accuracy. From it the prior computes how representative each agent is, see ``RepresentativenessPrior``.
            prior_weight: Weight of the prior, ``suggestion <- sigmoid(prior_gain * logit(suggestion) + prior_weight *
                z)``, where z is an agent's representativeness. 0 turns the prior off; a negative weight prefers
                unrepresentative agents. Made for the sampler ``odds``. Not part of the paper's method.
            prior_gain: Factor of the policies' logits; at 0 the prior decides alone.
            prior_only_lowers: Whether suggestions above one half count as one half, so that policies can only lower an
                agent's chances.
            prior_standardised: Whether z is standardised over the live agents; else it is the logarithm of the mean
                distance over the agent's distance from the mean report, which stays small where agents hardly differ.
            set_score: Makes the set score, such as a subclass of ``SetScore`` or
                ``functools.partial(UpdateMatching, ...)``; None for none. Needs the sampler ``odds``. Not part of the
                paper's method.
            set_weight: Weight of the set score: an agent is drawn in proportion to ``exp(logit(suggestion) +
                set_weight * z)``, where z is its set score, standardised over the agents that can still be selected. 0
                turns the set score off.
        """
        return self._set(
            sampler=sampler,
            epsilon=epsilon,
            epsilon_decay=epsilon_decay,
            epsilon_min=epsilon_min,
            outside_odds=outside_odds,
            score_key=score_key,
            highest_first=highest_first,
            candidates=candidates,
            size_key=size_key,
            prior_key=prior_key,
            prior_weight=prior_weight,
            prior_gain=prior_gain,
            prior_only_lowers=prior_only_lowers,
            prior_standardised=prior_standardised,
            set_score=set_score,
            set_weight=set_weight,
        )
