"""The running episode in and out of checkpoints, which RLlib leaves out."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from bippo_rllib.env_runner import BippoEnvRunner

#: Attributes of the runner that belong to the running episode.
_COUNTERS = ("_episode_length", "_episode_return")


def run_state(runner: BippoEnvRunner) -> dict[str, Any] | None:
    """What the runner and its environment need to go on.

    Returns:
        None if nothing has been stepped yet or the environment has no ``get_state``.
    """
    environment = _environment(runner)
    if environment is None or runner._needs_initial_reset or not hasattr(environment, "get_state"):
        return None
    state = environment.get_state()
    if state is None:
        return None
    return {
        "environment": state,
        "episode_over": bool(runner.env.unwrapped._autoreset_envs[0]),
        "counters": {name: getattr(runner, name) for name in _COUNTERS},
    }


def restore_run(runner: BippoEnvRunner, state: dict[str, Any]) -> None:
    """Puts the environment and the episode back where ``run_state`` found them."""
    observations, infos = _environment(runner).set_state(state["environment"])
    for name, value in state["counters"].items():
        setattr(runner, name, value)
    _mark_as_reset(runner.env.envs[0])
    vector_env = runner.env.unwrapped
    vector_env._autoreset_envs = np.array([state["episode_over"]])
    vector_env._observations[0], vector_env._infos[0] = observations, infos
    runner._shared_data = {}
    runner._new_episode(0)
    if not state["episode_over"]:
        runner._ongoing_episodes[0].add_env_reset(observations=observations, infos=infos)
    runner._cached_to_module = runner._env_to_module(
        rl_module=runner.module,
        batch={},
        episodes=runner._ongoing_episodes,
        explore=runner.config.explore,
        shared_data=runner._shared_data,
        metrics=runner.metrics,
    )
    runner._needs_initial_reset = False


def _mark_as_reset(env: Any) -> None:
    """Gymnasium's order check, a wrapper around every environment, would demand a reset."""
    while env is not env.unwrapped:
        if hasattr(env, "_has_reset"):
            env._has_reset = True
        env = env.env


def _environment(runner: BippoEnvRunner) -> Any:
    return runner.env.envs[0].unwrapped if runner.env is not None else None
