"""The federated-learning world: a PettingZoo environment in which one step is one FL round. Knows nothing of RLlib.

    import envs

    env = envs.parallel_env(num_clients=20, rounds=50)
    observations, infos = env.reset(seed=7)
    observations, rewards, terminations, truncations, infos = env.step({"client_000": 1})

Names are imported on first use (PEP 562), so ``from envs import energy`` loads neither torch nor PettingZoo.
"""

from __future__ import annotations

import importlib
from typing import Any

_NAMES = {
    "ChurnEvent": "rules.churn",
    "DeviceChange": "rules.device_change",
    "FederatedRounds": "federated_rounds",
    "FederationConfig": "config",
    "RayExecutor": "training.ray_executor",
    "RoundResult": "round_result",
    "SerialExecutor": "training.executors",
    "accuracy_reward": "rules.reward",
    "load_dataset": "data.datasets",
    "parallel_env": "federated_rounds",
}
_MODULES = {"energy": "rules.energy", "reward": "rules.reward"}

__all__ = [
    "ChurnEvent",
    "DeviceChange",
    "FederatedRounds",
    "FederationConfig",
    "RayExecutor",
    "RoundResult",
    "SerialExecutor",
    "accuracy_reward",
    "energy",
    "load_dataset",
    "parallel_env",
    "reward",
]


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return importlib.import_module(f"{__name__}.{_MODULES[name]}")
    if name in _NAMES:
        return getattr(importlib.import_module(f"{__name__}.{_NAMES[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
