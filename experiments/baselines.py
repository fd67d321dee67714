"""Configurations of the published methods whose rules are in ``bippo_rllib.baselines``."""

from __future__ import annotations

from collections.abc import Sequence

from bippo_rllib.baselines.bandit_connector import BanditSuggestions
from bippo_rllib.baselines.cyclic import Cyclic
from bippo_rllib.baselines.even_suggestions import EvenSuggestions
from bippo_rllib.baselines.fedcor import FedCor
from bippo_rllib.baselines.greedyfed import GreedyFed
from bippo_rllib.baselines.hics import HiCS
from bippo_rllib.baselines.label_balance import LabelBalance
from bippo_rllib.baselines.norm_filter import NormFilter
from bippo_rllib.baselines.rule import Rule
from bippo_rllib.baselines.rule_connector import RuleConnector
from bippo_rllib.policies.agents import policy_of
from bippo_rllib.selection.generator import seed_for
from bippo_rllib.selection.prior import RepresentativenessPrior
from bippo_rllib.selection.update_matching import UpdateMatching
from envs import FederatedRounds
from experiments.selectors import SelectorConfig


class RuleConfig(SelectorConfig):
    """Clients in the order of a rule, as many as the budget pays."""

    def __init__(self, algo_class: type | None = None) -> None:
        super().__init__(algo_class)
        self.selection(sampler="greedy")

    def new_rule(self, env: FederatedRounds, seed: Sequence[int] | None) -> Rule:
        """The rule, for an environment, with the seed of its draws."""
        raise NotImplementedError

    def new_connector(self, env: FederatedRounds) -> RuleConnector:
        """The rule as a piece of the pipeline."""
        return RuleConnector(self.new_rule(env, seed_for(self.seed, "rule")), client_of=policy_of)


class CyclicConfig(RuleConfig):
    """See ``Cyclic``."""

    def new_rule(self, env: FederatedRounds, seed: Sequence[int] | None) -> Cyclic:
        """A queue in random order."""
        return Cyclic(seed)


class GreedyFedConfig(RuleConfig):
    """See ``GreedyFed``; the environment must reward clients by Shapley value."""

    def new_rule(self, env: FederatedRounds, seed: Sequence[int] | None) -> GreedyFed:
        """Everybody once, then by value."""
        return GreedyFed(seed=seed)


class HiCSConfig(RuleConfig):
    """See ``HiCS``; the environment must report updates of the output layer's bias."""

    def new_rule(self, env: FederatedRounds, seed: Sequence[int] | None) -> HiCS:
        """Clusters that become equal until the environment's last round."""
        return HiCS(env.config.rounds, seed=seed)


class FedCorConfig(RuleConfig):
    """See ``FedCor``; the environment must report losses."""

    def new_rule(self, env: FederatedRounds, seed: Sequence[int] | None) -> FedCor:
        """Gains by a Gaussian process."""
        return FedCor(seed=seed)


class NormFilterConfig(RuleConfig):
    """See ``NormFilter``; the environment must report lengths of updates. ``two_sided`` is its argument."""

    def __init__(self, algo_class: type | None = None) -> None:
        super().__init__(algo_class)
        self.two_sided = False

    def new_rule(self, env: FederatedRounds, seed: Sequence[int] | None) -> NormFilter:
        """Random clients without long updates."""
        return NormFilter(two_sided=self.two_sided, seed=seed)


class FedCBSConfig(SelectorConfig):
    """Fed-CBS, see ``LabelBalance``; the environment must report label counts."""

    def __init__(self, algo_class: type | None = None) -> None:
        super().__init__(algo_class)
        self.selection(sampler="odds", set_score=LabelBalance)

    def new_connector(self, env: FederatedRounds) -> EvenSuggestions:
        """Even odds, so that the set score decides alone."""
        return EvenSuggestions()


class BanditConfig(SelectorConfig):
    """``bippo-s`` with a bandit in PPO's place, see ``BanditSuggestions``; rewards and reports must be those of it."""

    connector_before = RepresentativenessPrior

    def __init__(self, algo_class: type | None = None) -> None:
        super().__init__(algo_class)
        self.selection(sampler="odds", outside_odds=1.0, set_score=UpdateMatching)
        self.selection(prior_weight=2.0, prior_only_lowers=True)

    def new_connector(self, env: FederatedRounds) -> BanditSuggestions:
        """Suggestions from rewards."""
        return BanditSuggestions(client_of=policy_of)
