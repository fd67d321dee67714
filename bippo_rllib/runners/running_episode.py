"""The running episode of ``BippoEnvRunner``, one step of it, and checks of what an environment returned."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

#: By agent.
Entries = Mapping[Any, Any]


@dataclass
class RunningEpisode:
    """The episode that connectors and callbacks get: the latest step, with the methods of ``MultiAgentEpisode``.

    Length and return are those of the whole episode so far. An agent that left is in ``infos`` and ``rewards`` of its
    last step only.
    """

    id_: str
    module_of: Callable[..., str]
    agent_ids: list[str] = field(default_factory=list)  #: live agents, sorted
    observations: Mapping[str, np.ndarray] = field(default_factory=dict)
    actions: Mapping[str, int] = field(default_factory=dict)
    rewards: Mapping[str, float] = field(default_factory=dict)
    infos: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    env_t: int = 0
    total_return: float = 0.0
    is_done: bool = False
    custom_data: dict[str, Any] = field(default_factory=dict)  #: for the user

    def __len__(self) -> int:
        return self.env_t

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(
            f"the episode of BippoEnvRunner has no {name!r}, as it keeps the latest step only; use "
            "env_runners(env_runner_cls=EpisodeEnvRunner), which has RLlib's episodes"
        )

    def step(self, transition: Transition) -> None:
        """Replaces the latest step."""
        after, departed = transition.next_observations, transition.departed
        self.observations = {a: o for a, o in after.items() if a not in departed} if departed else after
        self.actions, self.rewards, self.infos = transition.actions, transition.rewards, transition.infos
        self.env_t, self.is_done = self.env_t + 1, transition.episode_over
        self.total_return += float(sum(transition.rewards.values()))

    def env_steps(self) -> int:
        """Returns the number of environment steps so far."""
        return self.env_t

    def get_return(self) -> float:
        """Returns the sum of all agents' rewards so far."""
        return self.total_return

    def module_for(self, agent_id: Any) -> str:
        """Returns the id of the policy that the agent acts with."""
        return self.module_of(agent_id, self)

    def get_observations(
        self, indices: int | None = None, agent_ids: Collection[Any] | None = None
    ) -> Mapping[Any, Any]:
        """Returns the latest observation of each live agent; see ``get_infos``."""
        return _latest("observations", self.observations, indices, agent_ids)

    def get_actions(self, indices: int | None = None, agent_ids: Collection[Any] | None = None) -> Entries:
        """Returns the latest action of each agent; see ``get_infos``."""
        return _latest("actions", self.actions, indices, agent_ids)

    def get_rewards(self, indices: int | None = None, agent_ids: Collection[Any] | None = None) -> Entries:
        """Returns the latest reward of each agent; see ``get_infos``."""
        return _latest("rewards", self.rewards, indices, agent_ids)

    def get_infos(self, indices: int | None = None, agent_ids: Collection[Any] | None = None) -> Entries:
        """Returns the latest info of each agent.

        Args:
            indices: -1 for the entry itself; None, as in RLlib, for a list of all entries, here of this one.
            agent_ids: Agents to return; all by default.

        Raises:
            ValueError: For other indices.
        """
        return _latest("infos", self.infos, indices, agent_ids)


def _latest(what: str, entries: Mapping[Any, Any], indices: int | None, agent_ids: Collection[Any] | None) -> Entries:
    if indices not in (-1, None):
        raise ValueError(
            f"indices of {what} are {indices!r}, but BippoEnvRunner keeps the latest step only (-1); use "
            "env_runners(env_runner_cls=EpisodeEnvRunner), which has RLlib's episodes"
        )
    if indices == -1 and agent_ids is None:
        return entries
    agents = entries if agent_ids is None else [agent for agent in agent_ids if agent in entries]
    return {agent: entries[agent] if indices == -1 else [entries[agent]] for agent in agents}


@dataclass(frozen=True)
class Transition:
    """One step of the N live agents, in agent order."""

    observations: np.ndarray  #: ``float32[N, obs_dim]`` state they acted in
    actions: Mapping[str, int]  #: by agent
    participated: np.ndarray  #: ``bool[N]`` participated, and its work was not lost
    log_probs: np.ndarray  #: ``float32[N]``
    next_observations: Mapping[str, np.ndarray]  #: by agent; joiners too, and departed agents where reported
    rewards: Mapping[str, float]
    infos: Mapping[str, Mapping[str, Any]]
    departed: Collection[str]  #: agents that left with the step while others stayed
    episode_over: bool


def check_returned(
    acted: Sequence[Any],
    observations: Mapping[Any, Any],
    rewards: Mapping[Any, Any],
    terminateds: Mapping[Any, bool],
    truncateds: Mapping[Any, bool],
) -> None:
    """Refuses a step that lacks the reward or last observation of an agent that acted, selected or not.

    An agent that was terminated needs no last observation, see ``with_last_observations``; one that is neither observed
    nor terminated nor truncated pauses.

    Raises:
        ValueError: If an agent was truncated without a last observation, or has no reward; the message names it.
    """
    if observations.keys() >= set(acted) <= rewards.keys():  # as in nearly every step
        return
    for agent in acted:
        if agent not in observations and (truncateds.get(agent) or truncateds.get("__all__")):
            raise ValueError(
                f"{agent!r} was truncated without a last observation, whose value is needed; return the observation "
                "that it left with, or terminate it"
            )
        pauses = agent not in observations and not (terminateds.get(agent) or terminateds["__all__"])
        if agent not in rewards and not pauses:
            raise ValueError(f"the reward of {agent!r} is missing; return one for every agent that acted")


def with_last_observations(
    after: Mapping[Any, Any],
    before: Callable[[], Mapping[Any, Any]],
    acted: Iterable[Any],
    terminateds: Mapping[Any, bool],
) -> Mapping[Any, Any]:
    """Adds to ``after``, the observations that a step returned, those missing of agents that it terminated.

    The last observation is then the one that the agent acted on. RLlib's episodes are meant to do the same, but lose
    the agent's last step if they are cut at every step.
    """
    all_terminated = terminateds["__all__"]
    unseen = [a for a in acted if a not in after and (all_terminated or terminateds.get(a))]
    if not unseen:
        return after
    acted_on = before()
    return {**after, **{agent: acted_on[agent] for agent in unseen}}


def check_participants_seen(participants: Iterable[str], observations: Mapping[str, Any]) -> None:
    """Refuses a step after which a participant is neither observed nor terminated nor truncated.

    Raises:
        ValueError: Naming the agent and what the environment can do.
    """
    for agent in participants:
        if agent not in observations:
            raise ValueError(
                f"the observation of {agent!r} is missing: it participated, and the step neither returned its "
                "observation nor terminated or truncated it; return one for every agent that acts, or truncate it with "
                f"a last one (it may come back as '{agent}#1'); EpisodeEnvRunner waits for agents that pause"
            )


def stack_entries(entries: Mapping[str, Any], agents: Sequence[str], what: str, *shape: int) -> np.ndarray:
    """Stacks what an environment returned for some agents: ``float32[len(agents), *shape]``.

    Raises:
        ValueError: If an entry is missing, of another shape or not finite; the message names the agent.
    """
    try:
        array = np.array([entries[agent] for agent in agents], dtype=np.float32).reshape(len(agents), *shape)
        if np.isfinite(array).all():
            return array
    except (KeyError, TypeError, ValueError):
        pass
    agent = next(agent for agent in agents if not _is_finite(entries.get(agent), shape))
    raise ValueError(
        f"the {what} of {agent!r} is {entries.get(agent, 'missing')}; the environment must return finite numbers of "
        f"shape {shape} for every agent that acts"
    )


def _is_finite(entry: Any, shape: tuple[int, ...]) -> bool:
    try:
        return np.shape(entry) == shape and bool(np.isfinite(np.asarray(entry, dtype=np.float32)).all())
    except (TypeError, ValueError):
        return False
