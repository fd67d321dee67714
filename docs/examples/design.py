r"""How the numbers of `bippo-r` and `bippo-s` were chosen: each with other settings of learning and selection.

`docs/algorithm.md` has what they reach. From this folder:

    bippo tune --scenario digits-noisy --set env.reward=leave_one_out --methods \
        design:with_critic design:slow design:slow_single design:pairs design:entropy_pairs \
        design:entropy design:more_entropy design:odds_alone
    bippo tune --scenario digits-noisy --methods design:team design:team_odds
    bippo tune --set env.reward=shapley env.update_profile_size=64 --methods \
        ablation:s_with_outside_option design:s_higher_gain
"""

from typing import Any

from bippo_rllib import BippoConfig
from experiments.methods import METHODS


def _bippo_r(outside_odds: float = 0.0, **training: Any) -> BippoConfig:
    """`bippo-r` without entropy bonus and outside option, but for what is given."""
    config = METHODS["bippo-r"].make_config().selection(outside_odds=outside_odds)
    return config.training(**{"entropy_coeff": 0.0} | training)


def team() -> BippoConfig:
    """The paper's learning: discounted, with a critic."""
    return _bippo_r(use_critic=True, gamma=0.9, lr=1e-3, policy_batch_size=2)


def team_odds() -> BippoConfig:
    """`bippo-r`, but for the team's reward, a discount and a critic."""
    return _bippo_r(use_critic=True, gamma=0.9, entropy_coeff=0.1, outside_odds=1.0)


def with_critic() -> BippoConfig:
    """What a client's own effect pays needs no discount; with a critic all the same."""
    return _bippo_r(use_critic=True, lr=1e-3, policy_batch_size=2)


def slow() -> BippoConfig:
    """Without a critic."""
    return _bippo_r(lr=1e-3, policy_batch_size=2)


def slow_single() -> BippoConfig:
    """An update with every participation."""
    return _bippo_r(lr=1e-3)


def pairs() -> BippoConfig:
    """A higher learning rate, an update with every second participation."""
    return _bippo_r(policy_batch_size=2)


def entropy_pairs() -> BippoConfig:
    """`pairs` with an entropy bonus."""
    return _bippo_r(policy_batch_size=2, entropy_coeff=0.1)


def entropy() -> BippoConfig:
    """`bippo-r` without its outside option."""
    return _bippo_r(entropy_coeff=0.1)


def more_entropy() -> BippoConfig:
    """Twice the bonus."""
    return _bippo_r(entropy_coeff=0.2)


def odds_alone() -> BippoConfig:
    """`bippo-r` without its entropy bonus."""
    return _bippo_r(outside_odds=1.0)


def s_higher_gain() -> BippoConfig:
    """`bippo-s`, where what policies have learned counts for more."""
    return METHODS["bippo-s"].make_config().selection(prior_gain=3.0)
