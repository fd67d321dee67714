"""Episodes of a federation as values that can be compared with ``==``."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch


def plain(value: Any) -> Any:
    """Returns arrays and tensors in it as lists."""
    if isinstance(value, np.ndarray | torch.Tensor):
        return value.tolist()
    if isinstance(value, dict):
        return {key: plain(entry) for key, entry in value.items() if key != "fl_seconds"}
    return [plain(entry) for entry in value] if isinstance(value, list | tuple) else value


def play(env: Any, rounds: int | None = None) -> list[Any]:
    """Returns all that is seen of the next rounds, with a selection that depends on the number of the round alone."""
    seen: list[Any] = []
    while env.agents and len(seen) != rounds:
        turn = env.get_state()["round"]
        step = env.step({agent: (place + turn) % 2 for place, agent in enumerate(env.agents)})
        weights = env.get_state()["weights"].numpy().tobytes()
        seen.append([plain(step), list(env.agents), list(env.possible_agents), env.last_round, weights])
    return seen


def rollout(env: Any, seed: int | None = None, rounds: int | None = None) -> list[Any]:
    """Returns an episode from its reset on."""
    return [plain(env.reset(seed=seed)), *play(env, rounds)]
