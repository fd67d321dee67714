"""BIPPO: budget-aware independent PPO on Ray RLlib.

Names are imported on first use (PEP 562): ``from bippo_rllib import BudgetSampler`` does not import Ray.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from bippo_rllib.baselines.central.config import CentralPPOConfig as CentralPPOConfig
    from bippo_rllib.bippo import Bippo as Bippo
    from bippo_rllib.config import BippoConfig as BippoConfig
    from bippo_rllib.federated.client_selector import ClientSelector as ClientSelector
    from bippo_rllib.federated.reports import ClientReport as ClientReport
    from bippo_rllib.federated.rewards import Reward as Reward
    from bippo_rllib.policies.macs import central_policy_macs as central_policy_macs
    from bippo_rllib.policies.macs import count_macs as count_macs
    from bippo_rllib.policies.macs import policy_macs as policy_macs
    from bippo_rllib.runners.episode_env_runner import EpisodeEnvRunner as EpisodeEnvRunner
    from bippo_rllib.runners.parallel_env import ParallelEnvAdapter as ParallelEnvAdapter
    from bippo_rllib.selection.budget_sampler import BudgetSampler as BudgetSampler
    from bippo_rllib.selection.connector import BudgetSamplerConnector as BudgetSamplerConnector
    from bippo_rllib.selection.info_ranking import InfoRanking as InfoRanking
    from bippo_rllib.selection.prior import RepresentativenessPrior as RepresentativenessPrior
    from bippo_rllib.selection.set_score import SetScore as SetScore
    from bippo_rllib.selection.update_matching import UpdateMatching as UpdateMatching

__version__ = "0.1.0"

#: Public name -> the module it lives in.
_HOME = {
    "Bippo": "bippo",
    "BippoConfig": "config",
    "BudgetSampler": "selection.budget_sampler",
    "BudgetSamplerConnector": "selection.connector",
    "CentralPPOConfig": "baselines.central.config",
    "ClientSelector": "federated.client_selector",
    "EpisodeEnvRunner": "runners.episode_env_runner",
    "InfoRanking": "selection.info_ranking",
    "ParallelEnvAdapter": "runners.parallel_env",
    "ClientReport": "federated.reports",
    "Reward": "federated.rewards",
    "RepresentativenessPrior": "selection.prior",
    "SetScore": "selection.set_score",
    "UpdateMatching": "selection.update_matching",
    "central_policy_macs": "policies.macs",
    "count_macs": "policies.macs",
    "policy_macs": "policies.macs",
}

__all__ = sorted(_HOME)


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_HOME[name]}"), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
