"""Which policy an agent acts with, and that policy's spaces."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ray.rllib.core.rl_module.rl_module import RLModuleSpec
from ray.rllib.env import INPUT_ENV_SINGLE_SPACES, INPUT_ENV_SPACES
from ray.rllib.env.multi_agent_env import MultiAgentEnv


def policy_of(agent_id: Any, episode: Any = None, **kwargs: Any) -> str:
    """The policy of an agent: its id up to ``#``, so that ``client_003#1`` acts with the policy of ``client_003``."""
    return str(agent_id).split("#", maxsplit=1)[0]


def _unwrapped(env: Any) -> MultiAgentEnv | None:
    """The one ``MultiAgentEnv`` inside RLlib's vector env."""
    if env is None:
        return None
    return env.envs[0].unwrapped if hasattr(env, "envs") else env.unwrapped


def policies_in(env: Any, spaces: Mapping[str, Any] | None) -> list[str]:
    """Policies of the environment's agents, in agent order, or of the spaces an env runner reports."""
    environment = _unwrapped(env)
    if environment is not None:
        return list(dict.fromkeys(policy_of(agent_id) for agent_id in environment.possible_agents))
    return [p for p in spaces or {} if p not in (INPUT_ENV_SPACES, INPUT_ENV_SINGLE_SPACES)]


def spaces_by_policy(
    mapping_fn: Callable[..., str],
    env: Any,
    spaces: Mapping[str, Any] | None,
    policy_ids: list[str],
    added: Mapping[str, RLModuleSpec],
) -> dict[str, tuple[Any, Any]]:
    """Observation and action space of each policy: those of the first agent that maps to it."""
    environment = _unwrapped(env)
    if environment is None:
        return {p: (spaces or {})[p] for p in policy_ids}
    found = {p: (spec.observation_space, spec.action_space) for p, spec in added.items()}
    for agent_id in environment.possible_agents:
        agent_spaces = (environment.get_observation_space(agent_id), environment.get_action_space(agent_id))
        found.setdefault(mapping_fn(agent_id, None), agent_spaces)
    missing = [p for p in policy_ids if p not in found]
    if missing:
        raise ValueError(f"no agent of the environment maps to {missing}; check .multi_agent(policies=...)")
    return {p: found[p] for p in policy_ids}
