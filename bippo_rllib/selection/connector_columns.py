"""Columns that connectors read and write: one array for all agents, readable as RLlib's dicts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, MutableMapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from bippo_rllib.as_numbers import as_float, as_floats
from bippo_rllib.setting_error import shown

#: Column of the suggestions, P(participate | s) of each agent, by which the sampler selects. Connectors before it may
#: replace them by any score; ``-inf`` means that the agent is no candidate.
SUGGESTION = "participation_suggestion"

#: RLlib's key of an agent in a batch: (episode id, agent id, policy id).
AgentKey = tuple[str, str, str]


@dataclass(frozen=True)
class AgentOrder:
    """The agents of a step, sorted by id, shared by all columns of the step."""

    keys: tuple[AgentKey, ...]
    index: Mapping[AgentKey, int]

    @classmethod
    def of(cls, keys: Sequence[AgentKey]) -> AgentOrder:
        """Sorts the keys."""
        ordered = tuple(sorted(keys))
        return cls(ordered, {key: i for i, key in enumerate(ordered)})

    @property
    def agents(self) -> list[str]:
        """Ids of the agents, in order."""
        return [agent_id for _, agent_id, _ in self.keys]


class AgentColumn(MutableMapping[AgentKey, Any]):
    """One column: ``array[i]`` belongs to ``order.keys[i]``.

    As a mapping it is ``{key: [item]}``, as RLlib's connectors expect; writing an item, also in place as
    ``column[key][0] = item``, writes the array.
    """

    def __init__(self, order: AgentOrder, array: np.ndarray) -> None:
        self.order, self.array = order, array

    def __getitem__(self, key: AgentKey) -> np.ndarray:
        index = self.order.index[key]
        return self.array[index : index + 1]

    def __setitem__(self, key: AgentKey, items: Sequence[Any]) -> None:
        self.array[self.order.index[key]] = items[0]

    def __delitem__(self, key: AgentKey) -> None:
        raise TypeError(f"{key} cannot be removed: every agent of the step needs an action")

    def __iter__(self) -> Iterator[AgentKey]:
        return iter(self.order.keys)

    def __len__(self) -> int:
        return len(self.order.keys)


def order_of(column: Mapping[AgentKey, Any]) -> AgentOrder:
    """Returns the agents of a column, which may also be RLlib's dict."""
    return column.order if isinstance(column, AgentColumn) else AgentOrder.of(list(column))


def values_of(column: Mapping[AgentKey, Any], order: AgentOrder) -> np.ndarray:
    """Returns the column's items as one array in ``order``."""
    if isinstance(column, AgentColumn) and column.order is order:
        return column.array
    return np.array([column[key][0] for key in order.keys])


def column_like(column: Mapping[AgentKey, Any], order: AgentOrder, array: np.ndarray) -> MutableMapping[AgentKey, Any]:
    """Makes a column of the same kind as ``column`` from an array."""
    if isinstance(column, AgentColumn):
        return AgentColumn(order, array)
    return {key: [array[i]] for i, key in enumerate(order.keys)}


def info_values(infos: Mapping[str, Mapping[str, Any]], agents: Sequence[str], key: str, named_by: str) -> np.ndarray:
    """Returns what each agent's info holds under ``key``: ``float64[len(agents)]``.

    Args:
        infos: Info by agent.
        agents: Agents to read.
        key: Info key.
        named_by: The setting that names the key, for the error.

    Raises:
        ValueError: If an info lacks the key or has no number there; the message names the agent, what was found and
            the setting.
    """
    try:
        values = [infos[agent_id][key] for agent_id in agents]
    except KeyError:
        without = next(agent_id for agent_id in agents if key not in infos.get(agent_id, {}))
        found = ", ".join(sorted(map(str, infos.get(without, {})))) or "nothing"
        raise ValueError(
            f"the info of {without!r} has no {key!r} (found: {found}); the environment must report it after reset "
            f"and every step, under the name given in {named_by}"
        ) from None
    numbers = as_floats(values)
    for i in map(int, np.flatnonzero(np.isnan(numbers))):
        if as_float(values[i]) is None:
            found = f"the info of {agents[i]!r} has {key!r} = {shown(values[i])}"
            raise ValueError(f"{found}; {named_by} needs a number from every agent")
    return numbers


def finite_info_values(
    infos: Mapping[str, Mapping[str, Any]], agents: Sequence[str], key: str, named_by: str
) -> np.ndarray:
    """Returns ``info_values``, which must be finite.

    Raises:
        ValueError: If an info lacks the key or has NaN or infinity under it; the message names agent and setting.
    """
    values = info_values(infos, agents, key, named_by)
    if not np.isfinite(values).all():
        index = int(np.flatnonzero(~np.isfinite(values))[0])
        raise ValueError(
            f"the info of {agents[index]!r} has {key!r} = {values[index]}; {named_by} needs a finite number from every "
            "agent"
        )
    return values
