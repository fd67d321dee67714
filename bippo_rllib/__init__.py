"""BIPPO: budget-aware independent PPO on Ray RLlib.

Names are imported on first use (PEP 562): ``from bippo_rllib import BudgetSampler`` does not import Ray.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from bippo_rllib.bippo import Bippo
    from bippo_rllib.central_ppo import CentralPPOConfig
    from bippo_rllib.client_selector import ClientSelector
    from bippo_rllib.config import BippoConfig
    from bippo_rllib.connector import BudgetSamplerConnector
    from bippo_rllib.episode_env_runner import EpisodeEnvRunner
    from bippo_rllib.heuristics import InfoRanking
    from bippo_rllib.macs import central_policy_macs, count_macs, policy_macs
    from bippo_rllib.parallel_env import ParallelEnvAdapter
    from bippo_rllib.sampler import BudgetSampler

__version__ = "0.1.0"

_HOME = {
    "Bippo": "bippo",
    "BippoConfig": "config",
    "BudgetSampler": "sampler",
    "BudgetSamplerConnector": "connector",
    "CentralPPOConfig": "central_ppo",
    "ClientSelector": "client_selector",
    "EpisodeEnvRunner": "episode_env_runner",
    "InfoRanking": "heuristics",
    "ParallelEnvAdapter": "parallel_env",
    "central_policy_macs": "macs",
    "count_macs": "macs",
    "policy_macs": "macs",
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
