"""Agent ids of the stays of clients. PettingZoo forbids that an agent returns, so every stay is an agent of its own."""

from __future__ import annotations

import bisect
from collections.abc import Iterable, Mapping, Sequence


def client_names(num_clients: int) -> list[str]:
    """Returns ``client_000``, ``client_001``, ...: at least three digits, all of one length, to sort as text."""
    width = max(3, len(str(num_clients - 1)))
    return [f"client_{client:0{width}d}" for client in range(num_clients)]


def agent_id(name: str, stay: int) -> str:
    """Returns the agent of a client's stay, from 1: ``client_003``, then ``client_003#1``, ``client_003#2``, ..."""
    return name if stay == 1 else f"{name}#{stay - 1}"


def client_name(agent: str) -> str:
    """Returns the client behind an agent: ``client_003`` for ``client_003#1``."""
    return agent.partition("#")[0]


def known_agents(names: Sequence[str], num_stays: Sequence[int]) -> list[str]:
    """Returns the agents of each client's first ``num_stays`` stays, sorted as text."""
    stays = zip(names, num_stays, strict=True)
    return sorted(agent_id(name, stay) for name, known in stays for stay in range(1, known + 1))


def add_known(known: list[str], agents: Iterable[str]) -> None:
    """Adds to what ``known_agents`` returned, in place, the agents that are not in it."""
    for agent in agents:
        place = bisect.bisect_left(known, agent)
        if known[place : place + 1] != [agent]:
            known.insert(place, agent)


def acting_clients(actions: Mapping[str, int], clients: Mapping[str, int]) -> list[int]:
    """Returns the ids of the clients whose action is 1, ascending.

    Args:
        actions: 0 or 1 by agent.
        clients: The client id of each live agent.

    Raises:
        ValueError: If an agent is not live or an action is neither 0 nor 1.
    """
    for agent, action in actions.items():
        if agent not in clients:
            live = list(clients)
            raise ValueError(f"{agent!r} is not a live agent; live are {live[0]} to {live[-1]}")
        if action not in (0, 1):
            raise ValueError(f"the action of {agent} is {action!r}; it must be 0 or 1 (1 trains)")
    return sorted(clients[agent] for agent, action in actions.items() if action == 1)
