"""FederatedRounds: clients decide whether to train, one step is one FL round under an energy budget.

| Fact | Value |
|---|---|
| API | PettingZoo ``ParallelEnv`` |
| Agents | ``client_000``, ``client_001``, ...; a client that returns is ``client_003#1``, then ``client_003#2``, ... |
| Actions | ``Discrete(2)``: 1 trains in this round, 0 does not |
| Observations | ``float32[5]`` |
| Reward | one for the team; with ``leave_one_out`` and ``shapley`` one of its own for each participant |
| Episode | ``rounds`` steps, or until no client is live; then all agents are truncated; nothing is terminal |

**Observation**, after the round that just ended:

| Index | Name | Unit | Range |
|---|---|---|---|
| 0 | mean accuracy over live clients | share | [0, 1] |
| 1 | training samples | share of the federation's largest client's, live or not | (0, 1] |
| 2 | accuracy on the client's own test set | share | [0, 1] |
| 3 | energy of the client's next round | share of the budget; 0 if it is infinite, 1 if it is 0 | [0, largest share] |
| 4 | trained in the last round; after round 0 all clients but failed ones | 0 or 1 | {0, 1} |

The largest share is that of any client at any frequency the configuration names. Should ``set_cpu_freq_hz`` lead
beyond it, the observation is cut off there; the info ``cost`` is exact.

**Actions.** ``step({"client_000": 1, ...})``; a live agent left out does not train. The clients that train may not cost
more than the budget: ``sum(costs) <= budget * (1 + 1e-9)``, summed in client order. If they do, ``on_overrun="raise"``
is an error that names the sum, the budget and the clients; ``"drop"`` turns down, in client order, what does not fit.

**Reward.** ``sign(d) * 64**|d|`` where ``d`` is the change of the mean accuracy of the clients live before and after
the round; 0 if ``d`` is 0 but for rounding, no client trained or none stays. From 0.50 to 0.52: ``64**0.02 =
1.0867``; from 0.52 back to 0.50: ``-1.0867``. Also by name: ``accuracy_target``, ``64**(accuracy - target) - 1``, and
``leave_one_out`` and ``shapley``: each participant gets ``sign(d) * (64**|d| - 1)``, ``d`` its own effect on the mean
accuracy or its Shapley value (``envs.rules.leave_one_out``, ``envs.rules.shapley``).

**Infos** of every agent are listed under "Infos" (``envs.infos``).

**Failures.** A client whose training raises or becomes NaN ends the run with an error that names it. With
``on_client_failure="drop"`` it is left out of the average, counts as one that did not train, and its joules are spent.

**Round 0** runs inside ``reset``: all clients live at the start train one epoch from a fresh initialisation and are
averaged. It is no step and is not charged to the budget; its joules are ``warmup_energy_j``.

**Costs that change.** ``DeviceChange(round, client, cpu_freq_hz)`` is in force from that round on. Clients report costs
with what a step returns: a change by ``set_cpu_freq_hz`` between two steps is in what the next step returns, and in
force from the round after it. With measured costs both are refused.

**Measured costs.** With ``energy_meter`` clients report what was read while they last trained, see
``envs.training.energy_meter``. A round charges what was reported before it; what was read is ``last_round.measured_j``.

**Probing.** Selecting by loss or accuracy needs them from every live client, selected or not. With ``probing_epochs``
above 0 each spends that many local epochs' computing energy on it in every round. The sum is ``last_round.probing_j``
and part of ``energy_j``; the info ``budget`` is what it leaves, observations stay shares of the whole budget. If more
or faster clients make probing exceed the budget, no client is probed and none trains: the info ``budget`` and the
round's energy are 0, until some leave. Infos still contain losses and accuracies, free of charge.

**Selecting.** With ``joules_per_mac`` above 0 ``selector_macs`` are charged: those of each live client together with
probing, those of each client that trains within its cost. ``last_round.selection_j`` is the sum, part of ``energy_j``.

**Churn.** Clients join and leave, see "Coming and going" (``envs.rules.churn``).

**Seeds.** ``reset(seed=s)`` draws samples, initialisation and shuffles from ``s``. ``reset()`` starts the next episode:
the same samples for each client, another initialisation and, with rates, other joins and leaves. Who holds which
labels, sizes and device types do not depend on the seed.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar

import gymnasium
import numpy as np
from pettingzoo import ParallelEnv

from envs.agent_ids import acting_clients, add_known, agent_id, client_name, known_agents
from envs.checks import Shortage
from envs.config import FederationConfig, config_from
from envs.episode_state import EpisodeState
from envs.federation import Federation
from envs.fitting import fitting_config
from envs.infos import Infos, info, requested_reports
from envs.observation import observation_space, observe
from envs.rng import RoundKey
from envs.round_result import RoundResult
from envs.rules.budget import admit_within_budget
from envs.training.executor import Executor

logger = logging.getLogger(__name__)

Observations = dict[str, np.ndarray]


def parallel_env(**config: Any) -> FederatedRounds:
    """Returns ``FederatedRounds(FederationConfig(**config))``.

    Where the data or the budget is too small for the defaults, those of sizes, number of clients and budget share that
    are not given follow from the data, and one line says so.

    Raises:
        ValueError: For an unknown or impossible setting, or if nothing fits.
    """
    try:
        return FederatedRounds(config_from(**config))
    except Shortage:
        fitting = fitting_config(config)
    return FederatedRounds(fitting)


class FederatedRounds(ParallelEnv):
    """The environment; the module's docstring is its specification.

    Construction loads the data set (once per process) and assigns the samples; it trains nothing.

    Args:
        config: The federation; digits with 20 clients by default.
        make_executor: What trains and evaluates, given the configuration; None for what ``config.executor`` names.

    Attributes:
        config: The federation.
        num_parameters: Parameters of the model.
        num_samples: ``int64[num_clients]`` training samples of each client.
        labels: Per client the labels it holds.
        warmup_energy_j: Joules of round 0.

    Raises:
        ValueError: If data is missing, the partition cannot be filled or the budget is below probing or the cheapest
            client.
    """

    metadata: ClassVar[dict[str, Any]] = {"name": "federated_rounds_v0", "render_modes": [], "is_parallelizable": True}
    render_mode = None  # there are no pictures; PettingZoo's and SuperSuit's wrappers ask

    def __init__(
        self,
        config: FederationConfig | None = None,
        make_executor: Callable[[FederationConfig], Executor] | None = None,
    ) -> None:
        self.config = config or FederationConfig()
        self._make_executor = make_executor
        self._federation = federation = Federation(self.config, make_executor)
        self.warmup_energy_j, self.num_parameters = federation.warmup_energy_j, federation.num_parameters
        self.num_samples, self.labels = federation.num_samples, federation.labels
        self._observation_space = observation_space(federation.largest_cost_share())
        self._action_spaces: dict[str, Any] = {name: gymnasium.spaces.Discrete(2) for name in federation.names}
        self._state: EpisodeState | None
        self._initialize(None)

    def observation_space(self, agent: str) -> gymnasium.spaces.Box:
        """Returns the space of every agent's observations, one object for all."""
        return self._observation_space

    def action_space(self, agent: str) -> gymnasium.spaces.Discrete:
        """Returns the space of an agent's actions, one object for all agents of a client."""
        return self._action_spaces[client_name(agent)]

    @property
    def costs_j(self) -> np.ndarray:
        """Returns the ``float64[num_clients]`` joules that each client reports for the next round.

        Before ``reset`` they are those of its training.
        """
        return (self._federation.start_costs_j if self._state is None else self._state.costs_j).copy()

    @property
    def budget_j(self) -> float:
        """Returns the joules a round may spend; with ``energy_meter`` and ``budget_share`` as measured in round 0."""
        return self._federation.budget_of(self._state)

    @property
    def last_round(self) -> RoundResult | None:
        """Returns the last round; None before the first."""
        return None if self._state is None else self._state.last_round

    def reset(self, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Observations, Infos]:
        """Runs round 0 and nothing more.

        Args:
            seed: Starts episode 0 of this seed; None starts the next episode, at first that of ``config.seed``.
            options: Ignored.

        Returns:
            Observations and infos of all clients live at the start.
        """
        previous = self._state.key if self._state else None
        state = self._federation.start(RoundKey.of_next_episode(previous, seed, self.config.seed))
        self._initialize(state)
        return self._observations(state, self._clients), self._infos(state, self._clients)

    def step(
        self, actions: Mapping[str, int]
    ) -> tuple[Observations, dict[str, float], dict[str, bool], dict[str, bool], Infos]:
        """Runs one FL round.

        Args:
            actions: 1 for each agent that trains; an agent left out does not.

        Returns:
            Observations, rewards, terminations, truncations and infos of the agents that were live and that join.

        Raises:
            ValueError: If an agent is not live, an action is not 0 or 1, or the selection exceeds the budget (with
                ``on_overrun="raise"``). The round is not run then and another selection may follow.
        """
        state = self._live_state().copy()  # a round that fails half-way leaves the last one's
        wanted = acting_clients(actions, self._clients)
        budget_j = self._federation.training_budget_j(state)
        selected, dropped, energy_j = admit_within_budget(
            wanted, state.costs_j, budget_j, self._federation.names, self.config.on_overrun
        )
        done = self._federation.run_round(state, selected, dropped, energy_j)
        self._state = state
        ended = state.round >= self.config.rounds
        seen = self._agents_of(state, sorted(done.clients + done.joined))
        rewards, departed = dict(zip(done.clients, done.rewards, strict=True)), set(done.departed)
        result = (
            self._observations(state, seen),
            {agent: rewards.get(client, 0.0) for agent, client in seen.items()},
            dict.fromkeys(seen, False),
            {agent: ended or client in departed for agent, client in seen.items()},
            self._infos(state, seen),
        )
        if ended:
            state.live = ()
        if ended or done.joined or departed:
            self._update_agents(state, done.joined)
        return result

    def render(self) -> None:
        """Renders nothing, as PettingZoo asks of a ``render_mode`` of None."""

    def close(self) -> None:
        """Ends the workers that train, such as Ray actors; the env remains usable, then with new ones."""
        self._federation.close()

    def set_cpu_freq_hz(self, client: int, freq_hz: float) -> None:
        """Sets a client's CPU frequency to ``freq_hz``; the next ``step`` returns its new cost, in force after it."""
        self._live_state().set_cpu_freq_hz(client, freq_hz)

    def get_state(self) -> dict[str, Any] | None:
        """Returns all that resuming bit for bit needs, as plain Python, NumPy and torch; None before ``reset``."""
        return None if self._state is None else self._state.to_dict()

    def set_state(self, state: dict[str, Any] | None) -> None:
        """Resumes from what ``get_state`` of an env with the same configuration returned.

        Raises:
            ValueError: If the state is that of another number of clients, another model or another churn schedule.
        """
        restored = None
        if state is not None:
            restored = EpisodeState.from_dict(state, self.config.num_clients, self._federation.num_weights)
            if restored.live:
                self._federation.schedule.check_live(restored.live, restored.round)
        self._initialize(restored)

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickles configuration and state; data is loaded and assigned again where the env is unpickled."""
        return type(self), (self.config, self._make_executor), self.get_state()

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Restores the state that ``__reduce__`` pickled."""
        self.set_state(state)

    def _live_state(self) -> EpisodeState:
        if self._state is None or not self._state.live:
            raise ValueError("no episode is running; call reset() first")
        return self._state

    def _initialize(self, state: EpisodeState | None) -> None:
        """Resumes from ``state``, with the agents known in it."""
        self._state = state
        known = self._federation.schedule.num_stays
        if state is not None:
            known = np.maximum(known, state.stays)
        self.possible_agents = known_agents(self._federation.names, known.tolist())
        self._clients = {} if state is None else self._agents_of(state, state.live)
        self.agents: list[str] = list(self._clients)

    def _update_agents(self, state: EpisodeState, joined: Sequence[int]) -> None:
        """Follows a change of the live clients; ``joined`` are new among them."""
        add_known(self.possible_agents, self._agents_of(state, joined))
        self._clients = self._agents_of(state, state.live)
        self.agents = list(self._clients)

    def _agents_of(self, state: EpisodeState, clients: Sequence[int]) -> dict[str, int]:
        """Client id by agent, of the present or else the last stay of each client."""
        names, stays = self._federation.names, state.stays.tolist()
        return {agent_id(names[client], stays[client]): client for client in clients}

    def _observations(self, state: EpisodeState, seen: Mapping[str, int]) -> Observations:
        clients, high = list(seen.values()), self._observation_space.high
        return dict(zip(seen, observe(state, clients, self.num_samples, self.budget_j, high), strict=True))

    def _infos(self, state: EpisodeState, seen: Mapping[str, int]) -> Infos:
        sizes, budget_j = self.num_samples.tolist(), self._federation.training_budget_j(state)
        counts = self._federation.label_counts(state.seed) if self.config.with_label_counts else None
        reports = requested_reports(self.config, state, counts)
        return {agent: info(state, client, sizes[client], budget_j, reports) for agent, client in seen.items()}
