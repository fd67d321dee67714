"""Small algorithms, and what can be compared of them."""

from __future__ import annotations

from typing import Any

import torch
from toy_envs import Workers

from bippo_rllib import Bippo, BippoConfig


def config(env: Any = Workers, seed: int = 7, base: type[BippoConfig] = BippoConfig, **keywords: Any) -> BippoConfig:
    return base().environment(env, env_config=keywords).debugging(seed=seed, log_level="ERROR")


def flat(algo: Bippo) -> torch.Tensor:
    """Returns the parameters of all policies."""
    learner = algo.learner
    return learner.policy.flat if hasattr(learner, "policy") else algo.bank.flat[algo.bank.slots_of(algo.bank.slots)]


def steps(algo: Bippo, number: int = 7) -> list[Any]:
    """Returns what was decided and learned in so many steps."""
    seen = []
    for _ in range(number):
        algo.train()
        seen.append((algo.parallel_env.time, algo.parallel_env.last_actions, flat(algo).tolist()))
    return seen


def snapshot(algo: Bippo) -> dict[str, torch.Tensor]:
    """Returns parameters, moments and step counts of all policies."""
    return {"weights": algo.bank.flat.clone(), **{name: t.clone() for name, t in vars(algo.learner.adam.all).items()}}


def same(a: dict[str, torch.Tensor], b: dict[str, torch.Tensor], slots: list[int] | None = None) -> bool:
    """Returns whether two snapshots are equal to the bit, in some slots or in all."""
    pick = slice(None) if slots is None else slots
    return all(torch.equal(a[name][pick], b[name][pick]) for name in a)
