r"""`bippo-r` without its parts, as methods of a study; `docs/results.md` has what they reach.

From this folder:

    bippo tune --set env.reward=leave_one_out --methods \
        ablation:without_odds ablation:without_prior ablation:learning_alone ablation:prior_alone
"""

from bippo_rllib import BippoConfig
from experiments.methods import METHODS


def without_odds() -> BippoConfig:
    """Drawn in proportion to the suggestions, as `ippo` does, until nobody else fits."""
    return METHODS["bippo-r"].make_config().selection(sampler="stochastic", outside_odds=0.0)


def without_prior() -> BippoConfig:
    """Scores are the policies' suggestions."""
    return METHODS["bippo-r"].make_config().selection(prior_weight=0.0)


def learning_alone() -> BippoConfig:
    """Neither prior nor odds: each client is paid for its own effect, without a critic."""
    return without_odds().selection(prior_weight=0.0)


def prior_alone() -> BippoConfig:
    """`rep`, drawn in proportion to its scores."""
    return METHODS["rep"].make_config().selection(sampler="stochastic")
