"""BIPPO: budget-aware independent PPO on Ray RLlib.

Names are imported on first use (PEP 562): ``from bippo_rllib import BudgetSampler`` does not import Ray.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from bippo_rllib.bippo import Bippo
    from bippo_rllib.central.config import CentralPPOConfig
    from bippo_rllib.config import BippoConfig
    from bippo_rllib.policies.client_selector import ClientSelector
    from bippo_rllib.policies.macs import central_policy_macs, count_macs, policy_macs
    from bippo_rllib.runners.episode_env_runner import EpisodeEnvRunner
    from bippo_rllib.runners.parallel_env import ParallelEnvAdapter
    from bippo_rllib.selection.connector import BudgetSamplerConnector
    from bippo_rllib.selection.ranking import InfoRanking
    from bippo_rllib.selection.sampler import BudgetSampler

__version__ = "0.1.0"

_HOME = {
    "Bippo": "bippo",
    "BippoConfig": "config",
    "BudgetSampler": "selection.sampler",
    "BudgetSamplerConnector": "selection.connector",
    "CentralPPOConfig": "central.config",
    "ClientSelector": "policies.client_selector",
    "EpisodeEnvRunner": "runners.episode_env_runner",
    "InfoRanking": "selection.ranking",
    "ParallelEnvAdapter": "runners.parallel_env",
    "central_policy_macs": "policies.macs",
    "count_macs": "policies.macs",
    "policy_macs": "policies.macs",
}

__all__ = [
    "Bippo",
    "BippoConfig",
    "BudgetSampler",
    "BudgetSamplerConnector",
    "CentralPPOConfig",
    "ClientSelector",
    "EpisodeEnvRunner",
    "InfoRanking",
    "ParallelEnvAdapter",
    "central_policy_macs",
    "count_macs",
    "policy_macs",
]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_HOME[name]}"), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
