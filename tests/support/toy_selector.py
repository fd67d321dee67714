"""Selectors that no algorithm was trained for: small, quick to make, and without Ray."""

from __future__ import annotations

import json
from collections.abc import Collection
from pathlib import Path
from typing import Any

import numpy as np
from safetensors import safe_open
from safetensors.numpy import save_file

from bippo_rllib import BudgetSampler, ClientSelector, Reward
from bippo_rllib.federated.selector_parts import SelectorParts
from bippo_rllib.learning.policy_trainer import PolicyTrainer
from bippo_rllib.policies.actor_critic import ParameterLayout
from bippo_rllib.policies.policy_stack import PolicyStack
from bippo_rllib.selection.representativeness import Prior

KEY = "bippo_rllib"


def toy_selector(num_clients: int = 3, *, obs_dim: int = 5, strategy: str = "odds", **parts: Any) -> ClientSelector:
    """Of clients ``client_000``, ... with fresh policies of 4 hidden units that learn from two participations."""
    policies = PolicyStack()
    policies.initialize(ParameterLayout(obs_dim, 4), 7)
    policies.add_policies([f"client_{client:03d}" for client in range(num_clients)])
    defaults = {"prior": Prior("accuracy", 2.0, 1.0), "reward": Reward()}
    return ClientSelector(
        SelectorParts(
            PolicyTrainer(policies, 2),
            BudgetSampler(strategy, seed=1, set_weight=2.0 if "matching" in parts else 0.0),
            np.full(obs_dim, 10, dtype=np.float32),
            **defaults | parts,
        )
    )


def toy_reports(
    num_clients: int = 3, accuracy: float = 0.3, cost: float = 1.0, trained: Collection[str] = ()
) -> dict[str, dict[str, Any]]:
    """One of each client; accuracies rise with the client, and those that trained have an update profile."""
    reports: dict[str, dict[str, Any]] = {
        f"client_{client:03d}": {
            "accuracy": accuracy + 0.01 * client,
            "num_samples": 10 + client,
            "cost_j": cost,
            "loss": 1.0,
        }
        for client in range(num_clients)
    }
    for number, client in enumerate(reports):
        if client in trained:
            reports[client]["update_profile"] = np.cos(np.arange(4) * (number + accuracy)).astype(np.float32)
    return reports


def used_selector(num_rounds: int = 3, **keywords: Any) -> ClientSelector:
    """One in the middle of a round, with participations, moments, a prior's records and a last round."""
    selector, chosen = toy_selector(**keywords), list(toy_reports(2))
    for number in range(num_rounds):
        chosen = selector.select(toy_reports(accuracy=0.3 + 0.05 * number, trained=chosen), 2.0)
        selector.update(chosen, rewards=1.0)
    return selector


def read_file(file: Path) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """Its record and arrays, without any check."""
    with safe_open(file, framework="np") as content:
        names = list(content.keys())
        return json.loads(content.metadata()[KEY]), {name: content.get_tensor(name) for name in names}


def write_file(file: Path, record: Any, arrays: dict[str, np.ndarray]) -> None:
    """Writes any record, a text as it is."""
    save_file(arrays, file, {KEY: record if isinstance(record, str) else json.dumps(record)})
