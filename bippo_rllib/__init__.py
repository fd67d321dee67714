"""BIPPO: budget-aware independent PPO on Ray RLlib.

Names are imported on first use (PEP 562): ``from bippo_rllib import BudgetSampler`` does not import Ray. What is not
here is imported from its module, such as ``bippo_rllib.runners.episode_env_runner.EpisodeEnvRunner``.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from bippo_rllib.bippo import Bippo as Bippo
    from bippo_rllib.config import BippoConfig as BippoConfig
    from bippo_rllib.federated.client_selector import ClientSelector as ClientSelector
    from bippo_rllib.federated.reports import ClientReport as ClientReport
    from bippo_rllib.federated.rewards import Reward as Reward
    from bippo_rllib.selection.budget_sampler import BudgetSampler as BudgetSampler
    from bippo_rllib.selection.connector import BudgetSamplerConnector as BudgetSamplerConnector
    from bippo_rllib.selection.set_score import SetScore as SetScore

__version__ = "0.1.0"

#: Public name -> the module that it is imported from.
_MODULE_OF = {
    "Bippo": "bippo",
    "BippoConfig": "config",
    "BudgetSampler": "selection.budget_sampler",
    "BudgetSamplerConnector": "selection.connector",
    "ClientReport": "federated.reports",
    "ClientSelector": "federated.client_selector",
    "Reward": "federated.rewards",
    "SetScore": "selection.set_score",
}

__all__ = sorted(_MODULE_OF)


def __getattr__(name: str) -> Any:
    if name not in _MODULE_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_MODULE_OF[name]}"), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
