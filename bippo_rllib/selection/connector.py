"""The budget sampler as a connector of RLlib's module-to-env pipeline."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from ray.rllib.connectors.connector_v2 import ConnectorV2
from ray.rllib.core.columns import Columns
from ray.rllib.utils.metrics.metrics_logger import MetricsLogger

from bippo_rllib.selection.budget_sampler import BudgetSampler
from bippo_rllib.selection.connector_columns import SUGGESTION, column_like, info_values, order_of, values_of
from bippo_rllib.selection.metrics import REDUCE, log_selection, selection_metrics
from bippo_rllib.selection.set_score import SetScore

#: Key of the set score's part of the state.
SET_SCORE = "set_score"


@dataclass(frozen=True)
class Scored:
    """What the latest selection was made by."""

    agents: Sequence[str]  #: ``[N]`` the live agents, sorted.
    suggestions: np.ndarray | None  #: ``[N]`` P(participate | s) of the policies; None where no policy was asked.
    scores: np.ndarray  #: ``[N]`` what the sampler got: the suggestions, adjusted or replaced; -inf is no candidate.


class BudgetSamplerConnector(ConnectorV2):
    """Turns all participation suggestions into a selection whose summed cost fits the budget.

    Pipeline: module-to-env, after ``ModuleToAgentUnmapping`` (the first place where all agents are seen together) and
    after the user's connectors. Needs in the batch: ``participation_suggestion`` of every agent. Needs in every agent's
    latest info: its cost and the budget, both in the environment's unit.

    Writes ``actions`` of every agent (1 = participate). The log-prob of a participant stays the policy's
    ``log(pi)``, also if connectors before this one replaced the suggestion by another score.

    Args:
        sampler: Selects the agents.
        cost_key: Info key of an agent's cost for the next step.
        budget_key: Info key of what all agents together may spend in the next step.
        set_score: Scores what a client adds to those picked so far, see ``SetScore``; the sampler must be ``odds``.
        client_of: Agent id -> client, for the set score. By default every agent id is a client.

    Attributes:
        latest: Suggestions and scores of the latest step; None before the first one and after a step without agents.
    """

    latest: Scored | None = None

    def __init__(
        self,
        sampler: BudgetSampler,
        *,
        cost_key: str = "cost",
        budget_key: str = "budget",
        set_score: SetScore | None = None,
        client_of: Callable[[Any], str] = str,
    ) -> None:
        super().__init__()
        self.sampler = sampler
        self.set_score, self.client_of = set_score, client_of
        self._cost_key, self._budget_key = cost_key, budget_key

    def __call__(
        self,
        *,
        batch: dict[str, Any],
        episodes: Sequence[Any],
        explore: bool | None = None,
        shared_data: Mapping[str, Any] | None = None,
        metrics: MetricsLogger | None = None,
        **kwargs: Any,
    ) -> dict[str, Any]:
        """Writes ``actions`` and logs metrics of the selection; ``explore`` is passed to the sampler."""
        suggestions = batch.get(SUGGESTION)
        self.latest = None
        if not suggestions:
            return batch
        order = order_of(suggestions)
        agents, scores = order.agents, values_of(suggestions, order)
        log_probs = batch.get(Columns.ACTION_LOGP)
        self.latest = Scored(agents, None if log_probs is None else np.exp(values_of(log_probs, order)), scores)
        infos = episodes[0].get_infos(-1)
        costs, budget = self._costs_and_budget(infos, agents)
        if self.set_score is not None:
            self.set_score.observe([self.client_of(agent) for agent in agents], [infos[agent] for agent in agents])
        explores, reduce = explore is not False, (shared_data or {}).get(REDUCE, "mean")
        if explores and self.sampler.strategy == "epsilon_greedy":
            log_selection(metrics, {"epsilon": self.sampler.epsilon}, reduce)
        selected = self.sampler.select(scores, costs, budget, explore=explores, names=agents, set_score=self.set_score)
        log_selection(metrics, selection_metrics(scores, costs, budget, selected), reduce)
        actions = np.zeros(len(agents), dtype=np.int64)
        actions[selected] = 1
        batch[Columns.ACTIONS] = column_like(suggestions, order, actions)
        return batch

    def get_state(self, components: Any = None, *, not_components: Any = None, **kwargs: Any) -> dict[str, Any]:
        """Returns the states of sampler and set score."""
        state = self.sampler.get_state()
        return state if self.set_score is None else {**state, SET_SCORE: self.set_score.get_state()}

    def set_state(self, state: Mapping[str, Any]) -> None:
        """Restores the state that ``get_state`` returned; an empty one, which RLlib may pass, changes nothing.

        Raises:
            ValueError: If only one of state and connector has a set score, or the set score cannot take its part.
                Nothing is changed then.
        """
        if not state:
            return
        if (SET_SCORE in state) != (self.set_score is not None):
            saved, here = ("with", "without") if SET_SCORE in state else ("without", "with")
            raise ValueError(f"the state was saved {saved} a set score, this is {here} one; use the same set_score")
        before = self.sampler.get_state()
        self.sampler.set_state(dict(state))
        if self.set_score is None:
            return
        try:
            self.set_score.set_state(state[SET_SCORE])
        except Exception as error:
            self.sampler.set_state(before)
            if not isinstance(error, LookupError):
                raise
            name = type(self.set_score).__name__
            raise ValueError(f"the state is of another set score than {name}: it has no {error}") from error

    def _costs_and_budget(self, infos: Mapping[str, Mapping[str, Any]], agents: list[str]) -> tuple[np.ndarray, float]:
        costs = info_values(infos, agents, self._cost_key, "BippoConfig.info_keys(cost=...)")
        budgets = info_values(infos, agents, self._budget_key, "BippoConfig.info_keys(budget=...)")
        lowest, highest = budgets.min(), budgets.max()  # both NaN if one budget is, which the sampler refuses
        if lowest < highest:
            raise ValueError(
                f"agents report different budgets ({lowest} and {highest} under {self._budget_key!r}); "
                "the budget is shared: put the same number into every info"
            )
        return costs, float(highest)
