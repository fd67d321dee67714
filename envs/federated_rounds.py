"""FederatedRounds: clients decide whether to train, one step is one FL round under an energy budget.

| Fact | Value |
|---|---|
| API | PettingZoo ``ParallelEnv`` |
| Agents | one per client: ``client_000``, ``client_001``, ... |
| Actions | ``Discrete(2)``: 1 trains in this round, 0 does not |
| Observations | ``float32[5]`` |
| Reward | one for the team, every agent gets the same |
| Episode | ``rounds`` steps, then all agents are truncated; nothing is terminal |

**Observation**, after the round that just ended:

| Index | Name | Unit | Range |
|---|---|---|---|
| 0 | mean accuracy over live clients | share | [0, 1] |
| 1 | training samples | share of the largest client's | (0, 1] |
| 2 | accuracy on the client's own test set | share | [0, 1] |
| 3 | energy of the client's next round | share of the budget; 0 if it is infinite, 1 if it is 0 | [0, largest share] |
| 4 | trained in the last round; 1 for all after round 0 | 0 or 1 | {0, 1} |

The largest share is that of any client at any frequency the configuration names. Should ``set_cpu_freq_hz`` lead
beyond it, the observation is cut off there; the info ``cost`` is exact.

**Actions.** ``step({"client_000": 1, ...})``; a live agent left out does not train. The clients that train may not cost
more than the budget: ``sum(costs) <= budget * (1 + 1e-9)``, summed in client order. If they do, ``on_overrun="raise"``
is an error that names the sum, the budget and the clients; ``"drop"`` turns down, in client order, what does not fit.

**Reward.** ``sign(d) * 64**|d|`` where ``d`` is the change of the mean accuracy; 0 if ``d`` is 0 or nobody trained.
From 0.50 to 0.52: ``64**0.02 = 1.0867``; from 0.52 back to 0.50: ``-1.0867``. Also by name: ``accuracy_target``,
``64**(accuracy - target) - 1``.

**Infos** of every live agent: ``cost`` (joules of this client in the next round), ``budget`` (joules of the next round,
the same for all), ``accuracy``, ``num_samples``, ``loss`` (mean cross-entropy on the client's training samples; with
``with_loss=True``), ``budget_share_j`` (joules granted in the last round, 0 if not selected) and ``dropped`` (asked to
train and was turned down).

**Round 0** runs inside ``reset``: all clients train one epoch from a fresh initialisation and are averaged. It is no
step and is not charged to the budget; its joules are ``warmup_energy_j``.

**Costs that change.** ``DeviceChange(round, client, cpu_freq_hz)`` is in force from that round on. Clients report costs
with what a step returns: a change by ``set_cpu_freq_hz`` between two steps is in what the next step returns, and in
force from the round after it.

**Seeds.** ``reset(seed=s)`` draws samples, initialisation and shuffles from ``s``. ``reset()`` starts the next episode:
the same samples for each client, another initialisation. Who holds which labels, sizes and device types do not depend
on the seed.

**Arguments**: see ``FederationConfig``.

**Version history.** v0: first version.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, ClassVar

import gymnasium
import numpy as np
from pettingzoo import ParallelEnv

from envs.budget import admitted
from envs.config import FederationConfig, config_from
from envs.episode_state import EpisodeState
from envs.executors import Executor, RoundKey, SerialExecutor
from envs.federation import Federation
from envs.observation import COST_SHARE, OBSERVATION_SIZE, build_observations, cost_shares
from envs.round_result import RoundResult

Observations = dict[str, np.ndarray]
Infos = dict[str, dict[str, Any]]


def parallel_env(**config: Any) -> FederatedRounds:
    """``FederatedRounds(FederationConfig(**config))``.

    Raises:
        ValueError: For an unknown or impossible setting.
    """
    return FederatedRounds(config_from(**config))


class FederatedRounds(ParallelEnv):
    """The environment; the module's docstring is its specification.

    Construction loads the data set (once per process) and deals the samples; it trains nothing.

    Args:
        config: The federation; digits with 20 clients by default.
        make_executor: What trains and evaluates, given the configuration.

    Attributes:
        config: The federation.
        budget_j: Joules a round may spend.
        num_parameters: Parameters of the model.
        num_samples: ``int64[num_clients]`` training samples of each client.
        labels: Per client the labels it holds.
        warmup_energy_j: Joules of round 0.

    Raises:
        ValueError: If data is missing, the partition cannot be filled or the budget is below the cheapest client.
    """

    metadata: ClassVar[dict[str, Any]] = {
        "name": "federated_rounds_v0",
        "render_modes": [],
        "is_parallelizable": True,
    }

    def __init__(
        self,
        config: FederationConfig | None = None,
        make_executor: Callable[[FederationConfig], Executor] = SerialExecutor,
    ) -> None:
        self.config = config or FederationConfig()
        self._make_executor = make_executor
        self._federation = federation = Federation(self.config, make_executor)
        self._state: EpisodeState | None = None
        self.budget_j = federation.budget_j
        self.warmup_energy_j = federation.warmup_energy_j
        self.num_parameters = federation.num_parameters
        self.num_samples = federation.num_samples
        self.labels = federation.labels
        self.possible_agents = list(federation.names)
        self.agents: list[str] = []
        self._client_of = {agent: client for client, agent in enumerate(self.possible_agents)}
        self._build_spaces()

    def observation_space(self, agent: str) -> gymnasium.spaces.Box:
        """The same object for every call and agent."""
        return self._observation_space

    def action_space(self, agent: str) -> gymnasium.spaces.Discrete:
        """An object of its own per agent, the same for every call."""
        return self._action_spaces[agent]

    @property
    def costs_j(self) -> np.ndarray:
        """``float64[num_clients]`` joules each client reports for the next round."""
        return (self._federation.start_costs_j if self._state is None else self._state.costs_j).copy()

    @property
    def last_round(self) -> RoundResult | None:
        """The last round; None before the first."""
        return None if self._state is None else self._state.last_round

    def reset(self, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Observations, Infos]:
        """Runs round 0 and nothing more.

        Args:
            seed: Starts episode 0 of this seed; None goes on to the next episode, the first being that of
                ``config.seed``.
            options: Ignored.

        Returns:
            Observations and infos of all clients.
        """
        if seed is not None and (isinstance(seed, bool) or int(seed) != seed or seed < 0):
            raise ValueError(f"seed is {seed!r}; it must be a whole number of at least 0")
        previous = self._state
        if seed is not None or previous is None:
            key = RoundKey(int(self.config.seed if seed is None else seed), episode=0, round=0)
        else:
            key = RoundKey(previous.seed, previous.episode + 1, round=0)
        self._state = state = self._federation.start(key)
        self.agents = [self.possible_agents[client] for client in state.live]
        return self._observations(state), self._infos(state)

    def step(
        self, actions: Mapping[str, int]
    ) -> tuple[Observations, dict[str, float], dict[str, bool], dict[str, bool], Infos]:
        """One FL round.

        Args:
            actions: 1 for each agent that trains; an agent left out does not.

        Returns:
            Observations, rewards, terminations, truncations and infos of the agents that were live.

        Raises:
            ValueError: If an agent is not live, an action is not 0 or 1, or the selection exceeds the budget (with
                ``on_overrun="raise"``). The round is not run then and another selection may follow.
        """
        state = self._live_state()
        selected, dropped, energy_j = admitted(
            self._wanted(actions), state.costs_j, self.budget_j, self.possible_agents, self.config.on_overrun
        )
        reward = self._federation.run_round(state, selected, dropped, energy_j).reward
        ended = state.round >= self.config.rounds
        result = (
            self._observations(state),
            dict.fromkeys(self.agents, reward),
            dict.fromkeys(self.agents, False),
            dict.fromkeys(self.agents, ended),
            self._infos(state),
        )
        if ended:
            state.live, self.agents = (), []
        return result

    def set_cpu_freq_hz(self, client: int, freq_hz: float) -> None:
        """A client's device changes; its new cost is in what the next ``step`` returns and in force after it."""
        state = self._live_state()
        if not 0 <= client < self.config.num_clients:
            raise ValueError(f"client is {client}; it must be from 0 to {self.config.num_clients - 1}")
        if not (np.isfinite(freq_hz) and freq_hz > 0):
            raise ValueError(f"freq_hz is {freq_hz}; it must be a finite number above 0")
        state.cpu_freq_hz[client] = freq_hz

    def get_state(self) -> dict[str, Any] | None:
        """All that is needed to go on bit for bit, as plain Python, NumPy and torch values; None before ``reset``."""
        return None if self._state is None else self._state.to_dict()

    def set_state(self, state: dict[str, Any] | None) -> None:
        """Goes on from what ``get_state`` of an env with the same configuration returned.

        Raises:
            ValueError: If the state is that of another number of clients or another model.
        """
        sizes = self.config.num_clients, self._federation.num_weights
        self._state = None if state is None else EpisodeState.from_dict(state, *sizes)
        self.agents = [] if self._state is None else [self.possible_agents[client] for client in self._state.live]

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickles configuration and state; data is loaded and dealt again where the env is unpickled."""
        return _unpickled, (type(self), self.config, self._make_executor, self.get_state())

    def _build_spaces(self) -> None:
        high = np.ones(OBSERVATION_SIZE, dtype=np.float32)
        high[COST_SHARE] = cost_shares(self._federation.cost_model.highest_costs_j(), self.budget_j).max()
        self._observation_space = gymnasium.spaces.Box(np.zeros_like(high), high, dtype=np.float32)
        self._action_spaces: dict[str, gymnasium.spaces.Discrete] = {
            agent: gymnasium.spaces.Discrete(2) for agent in self.possible_agents
        }

    def _live_state(self) -> EpisodeState:
        if self._state is None or not self._state.live:
            raise ValueError("no episode is running; call reset() first")
        return self._state

    def _wanted(self, actions: Mapping[str, int]) -> list[int]:
        """Client ids that want to train, ascending."""
        for agent, action in actions.items():
            if agent not in self.agents:
                raise ValueError(f"{agent!r} is not a live agent; live are {self.agents[0]} to {self.agents[-1]}")
            if action not in (0, 1):
                raise ValueError(f"the action of {agent} is {action!r}; it must be 0 or 1 (1 trains)")
        return sorted(self._client_of[agent] for agent, action in actions.items() if action == 1)

    def _observations(self, state: EpisodeState) -> Observations:
        live = list(state.live)
        rows = build_observations(
            state.accuracies[live],
            self.num_samples[live],
            state.costs_j[live],
            self.budget_j,
            state.participated[live],
        )
        np.minimum(rows, self._observation_space.high, out=rows)
        return {self.possible_agents[client]: row for client, row in zip(live, rows, strict=True)}

    def _infos(self, state: EpisodeState) -> Infos:
        return {self.possible_agents[client]: self._info(state, client) for client in state.live}

    def _info(self, state: EpisodeState, client: int) -> dict[str, Any]:
        info = {
            "cost": float(state.costs_j[client]),
            "budget": self.budget_j,
            "accuracy": float(state.accuracies[client]),
            "num_samples": int(self.num_samples[client]),
            "budget_share_j": float(state.granted_j[client]),
            "dropped": bool(state.dropped[client]),
        }
        if state.losses is not None:
            info["loss"] = float(state.losses[client])
        return info


def _unpickled(
    env_class: type[FederatedRounds],
    config: FederationConfig,
    make_executor: Callable[[FederationConfig], Executor],
    state: dict[str, Any] | None,
) -> FederatedRounds:
    env = env_class(config, make_executor)
    env.set_state(state)
    return env
