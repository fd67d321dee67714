"""Settings of the named methods, for studies and for selectors that no study has trained. Standard library only."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

#: Rewarded for its own effect, a policy needs neither a critic nor discounted rewards.
_OWN_EFFECT = MappingProxyType(
    {"use_critic": False, "gamma": 0.0, "policy_batch_size": 1, "lr": 3e-3, "entropy_coeff": 0.1}
)


@dataclass(frozen=True)
class MethodSettings:
    """What differs from ``BippoConfig``'s defaults.

    Attributes:
        selection: Keywords of ``BippoConfig.selection``, but for the set score.
        training: Keywords of ``BippoConfig.training``.
        learns: Whether any policy learns.
        update_profile_size: Numbers in the update profiles of its set score, ``UpdateMatching``; 0 for no set score.
        rule: ``cyclic`` or ``oort``, a rule that takes the place of the policies' suggestions; empty for none.
        reward: Reward of ``envs.FederatedRounds`` that the method is trained on.
    """

    selection: Mapping[str, Any]
    training: Mapping[str, Any] = field(default_factory=dict)
    learns: bool = True
    update_profile_size: int = 0
    rule: str = ""
    reward: str = "accuracy_change"


#: By the name of the method. The numbers of ``bippo-r`` and ``bippo-s`` were chosen on digits: docs/algorithm.md.
METHOD_SETTINGS: Mapping[str, MethodSettings] = MappingProxyType(
    {
        "bippo": MethodSettings({"sampler": "epsilon_greedy"}),
        "ippo": MethodSettings({"sampler": "stochastic"}),
        "bippo-greedy": MethodSettings({"sampler": "greedy"}),
        "ippo-odds": MethodSettings({"sampler": "odds"}),
        "bippo-r": MethodSettings(
            {"sampler": "odds", "outside_odds": 1.0, "prior_weight": 2.0}, _OWN_EFFECT, reward="leave_one_out"
        ),
        "bippo-s": MethodSettings(
            {
                "sampler": "odds",
                "prior_weight": 4.0,
                "prior_gain": 2.0,
                "prior_only_lowers": True,
                "prior_standardised": False,
                "set_weight": 2.0,
            },
            _OWN_EFFECT,
            update_profile_size=64,
            reward="shapley",
        ),
        "rep": MethodSettings({"sampler": "odds", "prior_weight": 2.0, "prior_gain": 0.0}, learns=False),
        "fedavg": MethodSettings({"sampler": "random"}, learns=False),
        "poc": MethodSettings({"sampler": "greedy", "score_key": "loss"}, learns=False),
        "poca": MethodSettings({"sampler": "greedy", "score_key": "accuracy", "highest_first": False}, learns=False),
        "cyclic": MethodSettings({"sampler": "greedy"}, learns=False, rule="cyclic"),
        "oort": MethodSettings({"sampler": "greedy"}, learns=False, rule="oort"),
    }
)
