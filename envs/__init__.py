"""The federated-learning world: a PettingZoo environment in which one step is one FL round. Knows nothing of RLlib.

    import envs

    env = envs.parallel_env(num_clients=20, rounds=50)
    observations, infos = env.reset(seed=7)
    observations, rewards, terminations, truncations, infos = env.step({"client_000": 1})

Names are imported on first use (PEP 562), so ``from envs import energy`` loads neither torch nor PettingZoo.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from envs.config import FederationConfig as FederationConfig
    from envs.data.datasets import Dataset as Dataset
    from envs.data.datasets import load_dataset as load_dataset
    from envs.federated_rounds import FederatedRounds as FederatedRounds
    from envs.federated_rounds import parallel_env as parallel_env
    from envs.infos import Info as Info
    from envs.round_result import RoundResult as RoundResult
    from envs.rules import energy as energy
    from envs.rules import reward as reward
    from envs.rules.churn import ChurnEvent as ChurnEvent
    from envs.rules.device_change import DeviceChange as DeviceChange
    from envs.rules.reward import accuracy_reward as accuracy_reward
    from envs.settings.execution import Execution as Execution
    from envs.training.ray_executor import RayExecutor as RayExecutor
    from envs.training.serial_executor import SerialExecutor as SerialExecutor

#: Public name -> its module; a module is its own.
_HOMES = {
    "ChurnEvent": "rules.churn",
    "Dataset": "data.datasets",
    "DeviceChange": "rules.device_change",
    "Execution": "settings.execution",
    "FederatedRounds": "federated_rounds",
    "FederationConfig": "config",
    "Info": "infos",
    "RayExecutor": "training.ray_executor",
    "RoundResult": "round_result",
    "SerialExecutor": "training.serial_executor",
    "accuracy_reward": "rules.reward",
    "energy": "rules.energy",
    "load_dataset": "data.datasets",
    "parallel_env": "federated_rounds",
    "reward": "rules.reward",
}

__all__ = list(_HOMES)


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module = importlib.import_module(f"{__name__}.{_HOMES[name]}")
    return module if _HOMES[name].endswith(f".{name}") else getattr(module, name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
