r"""`bippo-r` and `bippo-s` without their parts, as methods of a study; `docs/results.md` has what they reach.

From this folder:

    bippo tune --set env.reward=leave_one_out --methods \
        ablation:without_odds ablation:without_prior ablation:learning_alone ablation:prior_alone
    bippo tune --set env.reward=shapley env.update_profile_size=64 --methods \
        ablation:s_without_set_score ablation:s_without_memory ablation:s_without_prior ablation:s_standardised \
        ablation:s_with_outside_option ablation:s_without_learning ablation:s_set_score_alone ablation:s_raising
"""

import functools

from bippo_rllib import BippoConfig
from bippo_rllib.selection.update_matching import UpdateMatching
from experiments.methods import METHODS


def without_odds() -> BippoConfig:
    """Drawn in proportion to the suggestions, as `ippo` does, until nobody else fits."""
    return METHODS["bippo-r"].make_config().selection(sampler="stochastic", outside_odds=0.0)


def without_prior() -> BippoConfig:
    """Scores are the policies' suggestions."""
    return METHODS["bippo-r"].make_config().selection(prior_weight=0.0)


def learning_alone() -> BippoConfig:
    """Neither prior nor odds: each client is rewarded for its own effect, without a critic."""
    return without_odds().selection(prior_weight=0.0)


def prior_alone() -> BippoConfig:
    """`rep`, drawn in proportion to its scores."""
    return METHODS["rep"].make_config().selection(sampler="stochastic")


def s_without_set_score() -> BippoConfig:
    """Each pick is drawn by its own odds, whoever was picked before it."""
    return METHODS["bippo-s"].make_config().selection(set_score=None)


def s_without_memory() -> BippoConfig:
    """Updates are matched within a round only, whatever the rounds before it trained."""
    return METHODS["bippo-s"].make_config().selection(set_score=functools.partial(UpdateMatching, memory=0.0))


def s_standardised() -> BippoConfig:
    """`bippo-r`'s prior, which tells clients apart as clearly where they hardly differ."""
    return METHODS["bippo-s"].make_config().selection(prior_standardised=True, prior_weight=2.0)


def s_without_prior() -> BippoConfig:
    """Scores are the policies' suggestions with `bippo-s`'s gain, at most one half."""
    return METHODS["bippo-s"].make_config().selection(prior_weight=1e-9)  # 0 would drop gain and bound too


def s_with_outside_option() -> BippoConfig:
    """A round may end before the budget does, as `bippo-r`'s."""
    return METHODS["bippo-s"].make_config().selection(outside_odds=1.0)


def s_without_learning() -> BippoConfig:
    """Policies stay as they were at the start, a suggestion of one half."""
    return METHODS["bippo-s"].make_config().multi_agent(policies_to_train=[])


def s_set_score_alone() -> BippoConfig:
    """Neither prior nor learning: which clients complement each other decides."""
    return s_without_prior().multi_agent(policies_to_train=[])


def s_raising() -> BippoConfig:
    """Suggestions above one half count as they are."""
    return METHODS["bippo-s"].make_config().selection(prior_only_lowers=False)


def s_other_reward() -> BippoConfig:
    """`bippo-s` with the reward that the study sets, such as `env.reward=leave_one_out`."""
    return METHODS["bippo-s"].make_config()
