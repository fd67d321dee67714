"""Configurations of the published methods whose rules are in ``bippo_rllib.baselines``."""

from __future__ import annotations

from collections.abc import Sequence

from bippo_rllib.baselines.cyclic import Cyclic
from bippo_rllib.baselines.rule import Rule
from bippo_rllib.baselines.rule_connector import RulePiece
from bippo_rllib.policies.agents import policy_of
from envs import FederatedRounds
from experiments.selectors import SelectorConfig


class RuleConfig(SelectorConfig):
    """Clients in the order of a rule, as many as the budget pays."""

    def __init__(self, algo_class: type | None = None) -> None:
        super().__init__(algo_class)
        self.training(sampler="greedy")

    def new_rule(self, env: FederatedRounds, seed: Sequence[int] | None) -> Rule:
        """The rule, for an environment, with the seed of its draws."""
        raise NotImplementedError

    def new_piece(self, env: FederatedRounds) -> RulePiece:
        """The rule as a piece of the pipeline."""
        seed = None if self.seed is None else [self.seed, *b"rule"]
        return RulePiece(self.new_rule(env, seed), client_of=policy_of)


class CyclicConfig(RuleConfig):
    """See ``Cyclic``."""

    def new_rule(self, env: FederatedRounds, seed: Sequence[int] | None) -> Cyclic:
        """A queue in random order."""
        return Cyclic(seed)
