"""Maps agents to policies and policies to spaces. Works without Ray.

A client is an agent under all ids that it comes back with; its policy, RLlib's module, has its name.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from gymnasium import Space
    from ray.rllib.env.multi_agent_env import MultiAgentEnv

#: Id of the one policy of the central baselines.
CENTRAL = "central"


def policy_of(agent_id: Any, episode: Any = None, **kwargs: Any) -> str:
    """Returns the policy of an agent, its id up to ``#``: ``client_003#1`` acts with that of ``client_003``."""
    return str(agent_id).split("#", maxsplit=1)[0]


@dataclass(frozen=True)
class PolicyOf:
    """Maps an agent to its policy by a user's ``policy_mapping_fn``, without an episode."""

    mapping_fn: Callable[..., str]

    def __call__(self, agent_id: Any) -> str:
        """Returns the policy of an agent."""
        return self.mapping_fn(agent_id, None)


def policy_spaces(
    env: MultiAgentEnv, mapping_fn: Callable[..., str], policy_ids: Collection[str] = ()
) -> dict[str, tuple[Space, Space]]:
    """Returns observation and action space of each policy, in the order of the environment's agents.

    Args:
        env: The environment.
        mapping_fn: Agent id -> policy id.
        policy_ids: Expected policies; all that agents map to by default.

    Raises:
        ValueError: If no agent maps to one of ``policy_ids``.
    """
    found: dict[str, tuple[Space, Space]] = {}
    for agent_id in env.possible_agents:
        policy_id = mapping_fn(agent_id, None)
        if policy_id not in found:
            found[policy_id] = (env.get_observation_space(agent_id), env.get_action_space(agent_id))
    missing = sorted(set(policy_ids) - set(found))
    if missing:
        raise ValueError(f"no agent of the environment maps to {missing}; check .multi_agent(policies=...)")
    return {p: found[p] for p in policy_ids} if policy_ids else found


def common_spaces(spaces: Mapping[str, tuple[Space, Space]]) -> tuple[Space, Space]:
    """Returns the pair of spaces that all policies share.

    Raises:
        ValueError: If two policies differ; the message names them.
    """
    if not spaces:
        raise ValueError("the environment has no agents; possible_agents must list all agents that may act")
    first = next(iter(spaces))
    for policy_id, pair in spaces.items():
        if pair != spaces[first]:
            raise ValueError(
                f"policy {policy_id!r} has spaces {pair}, policy {first!r} {spaces[first]}; the policies are "
                "stacked, so give all agents observations of one shape (pad the shorter ones) and the same bounds"
            )
    return spaces[first]


def environment_in(env: Any) -> MultiAgentEnv:
    """Returns the ``MultiAgentEnv`` in RLlib's vector environment, which has one only."""
    return env.envs[0].unwrapped if hasattr(env, "envs") else env.unwrapped
