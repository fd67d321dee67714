"""Selectors that no simulation has trained."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import fields
from typing import Any

import numpy as np

from bippo_rllib.baselines.cyclic import Cyclic
from bippo_rllib.baselines.oort import Oort
from bippo_rllib.federated.environment import shared
from bippo_rllib.federated.ranking import Ranking, ReportRanking, RuleRanking
from bippo_rllib.federated.rewards import Reward
from bippo_rllib.federated.selector_parts import SelectorParts
from bippo_rllib.federated.selector_settings import PRIOR, SAMPLER
from bippo_rllib.learning.policy_trainer import BATCH_SIZE, PolicyTrainer
from bippo_rllib.learning.ppo_update import PPOSettings
from bippo_rllib.method_settings import METHOD_SETTINGS
from bippo_rllib.policies.actor_critic import HIDDEN_SIZE, ParameterLayout
from bippo_rllib.policies.policy_stack import PolicyStack
from bippo_rllib.selection.budget_sampler import BudgetSampler
from bippo_rllib.selection.generator import seed_for
from bippo_rllib.selection.representativeness import Prior
from bippo_rllib.selection.update_matching import UpdateMatching
from bippo_rllib.setting_error import did_you_mean, shown

#: What a method without a selector is like, and what to take in its place.
_CENTRAL = "one central network selects among a fixed set of clients; 'ippo' and 'bippo' have a policy for each"


def fresh_parts(method: str, seed: int | None) -> SelectorParts:
    """Returns a selector without policies, as a ``Bippo`` algorithm of the method starts.

    Args:
        method: Name of a method in ``METHOD_SETTINGS``, or ``random`` for ``fedavg``.
        seed: Seed of initial weights and draws; None for a random one.

    Raises:
        ValueError: If the method has no selector, in one line.
    """
    name = "fedavg" if method == "random" else method
    if name not in METHOD_SETTINGS:
        raise ValueError(_why_none(method))
    settings = METHOD_SETTINGS[name]
    seed = int(np.random.SeedSequence().generate_state(1)[0]) if seed is None else _checked_seed(seed)
    selection, training = dict(settings.selection), dict(settings.training)
    prior = _taken(selection, PRIOR, "prior_")
    sampler = {"strategy": selection.pop("sampler")} | _taken(selection, SAMPLER)
    policies = PolicyStack()
    size = shared("rules.observation").OBSERVATION_SIZE
    policies.initialize(ParameterLayout(size, training.pop("hidden_size", HIDDEN_SIZE)), seed)
    parts = SelectorParts(
        trainer=PolicyTrainer(policies, training.pop("policy_batch_size", BATCH_SIZE)),
        sampler=BudgetSampler(**sampler, seed=seed_for(seed, "budget sampler")),
        observation_high=np.ones(size, dtype=np.float32),
        settings=PPOSettings(**_taken(training, [field.name for field in fields(PPOSettings)])),
        prior=Prior(**prior) if prior else None,
        matching=UpdateMatching() if settings.update_profile_size else None,
        ranking=_ranking(settings.rule, _taken(selection, ("score_key", "highest_first")), seed),
        reward=Reward(settings.reward),
        trains=None if settings.learns else [],
    )
    assert not selection and not training, f"{method} sets {[*selection, *training]}, which no selector has"
    return parts


def _taken(settings: dict[str, Any], names: Iterable[str], prefix: str = "") -> dict[str, Any]:
    """Removes those of ``names`` that are in ``settings``, with the prefix, and returns them without it."""
    return {name: settings.pop(prefix + name) for name in names if prefix + name in settings}


def _checked_seed(seed: Any) -> int:
    if isinstance(seed, bool) or not isinstance(seed, int | np.integer) or not 0 <= seed < 2**64:
        raise ValueError(f"seed is {shown(seed)}; it must be a whole number from 0 to 2**64 - 1, or None")
    return int(seed)


def _ranking(rule: str, by_report: dict[str, Any], seed: int) -> Ranking | None:
    if rule == "cyclic":
        return RuleRanking(Cyclic(seed_for(seed, "rule")))
    if rule == "oort":
        return RuleRanking(Oort(seed_for(seed, "oort")))
    return ReportRanking(by_report.pop("score_key"), **by_report) if by_report else None


def _why_none(method: object) -> str:
    known = ["random", *METHOD_SETTINGS]
    if method in ("ppo", "fppo"):
        return f"method {method!r} has no selector: {_CENTRAL}"
    hint = did_you_mean(str(method), known)
    return f"method {method!r} has no selector that can start fresh; choose one of {', '.join(known)}{hint}"
