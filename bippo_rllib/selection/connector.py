"""The budget sampler as a piece of RLlib's module-to-env pipeline."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import gymnasium as gym
import numpy as np
from ray.rllib.connectors.connector_v2 import ConnectorV2
from ray.rllib.core.columns import Columns

from bippo_rllib.selection.agent_columns import column_like, info_values, order_of, values_of
from bippo_rllib.selection.columns import PARTICIPATED, SUGGESTION
from bippo_rllib.selection.sampler import BudgetSampler


class BudgetSamplerConnector(ConnectorV2):
    """Turns all participation suggestions into a selection whose summed cost fits the budget.

    Pipeline: module-to-env, after ``ModuleToAgentUnmapping`` (the first place where all agents are seen together) and
    after the user's own pieces. Needs in the batch: ``participation_suggestion`` and ``action_logp`` of every agent.
    Needs in every agent's latest info: its cost and the budget, both in the environment's unit.

    Writes for every agent: ``actions`` (1 = participate), ``participated`` (1.0 or 0.0) and, for the agents turned
    down, ``action_logp = log(1 - pi)``. The log-prob of a participant stays the policy's own, ``log(pi)``. Neither
    depends on the suggestion, which pieces before this one may have turned into any score.

    Args:
        input_observation_space: As for every connector.
        input_action_space: As for every connector.
        strategy: ``BudgetSampler`` strategy; the next four as there.
        epsilon: Initial exploration rate.
        epsilon_decay: Its decay per step.
        epsilon_min: Its lower end.
        seed: Seed of the sampler's generator.
        cost_key: Info key of an agent's cost for the next step.
        budget_key: Info key of what all agents together may spend in the next step.
    """

    def __init__(
        self,
        input_observation_space: gym.Space | None = None,
        input_action_space: gym.Space | None = None,
        strategy: str = "epsilon_greedy",
        epsilon: float = 1.0,
        epsilon_decay: float = 0.9,
        epsilon_min: float = 0.05,
        seed: int | Sequence[int] | None = None,
        cost_key: str = "cost",
        budget_key: str = "budget",
    ) -> None:
        super().__init__(input_observation_space, input_action_space)
        self.sampler = BudgetSampler(
            strategy, epsilon=epsilon, epsilon_decay=epsilon_decay, epsilon_min=epsilon_min, seed=seed
        )
        self._cost_key, self._budget_key = cost_key, budget_key

    def __call__(
        self,
        *,
        rl_module: Any,
        batch: dict[str, Any],
        episodes: Sequence[Any],
        explore: bool | None = None,
        shared_data: dict | None = None,
        **kwargs: Any,
    ) -> dict[str, Any]:
        suggestions = batch.get(SUGGESTION)
        if not suggestions:
            return batch
        order = order_of(suggestions)
        agents = [agent_id for _, agent_id, _ in order.keys]
        scores = np.asarray(values_of(suggestions, order), dtype=np.float64)
        costs, budget = self._costs_and_budget(episodes[0].get_infos(-1), agents)
        chosen = self.sampler.select(scores, costs, budget, explore is not False, names=agents)
        participated = np.zeros(len(agents), dtype=np.float32)
        participated[chosen] = 1.0
        log_probs = np.asarray(values_of(batch[Columns.ACTION_LOGP], order), dtype=np.float32)
        log_probs = np.where(participated > 0.0, log_probs, log_prob_of_the_rest(log_probs))
        batch[Columns.ACTIONS] = column_like(suggestions, order, participated.astype(np.int64))
        batch[Columns.ACTION_LOGP] = column_like(suggestions, order, log_probs)
        batch[PARTICIPATED] = column_like(suggestions, order, participated)
        return batch

    def get_state(self, components: Any = None, *, not_components: Any = None, **kwargs: Any) -> dict[str, Any]:
        """Epsilon and the sampler's generator."""
        return self.sampler.get_state()

    def set_state(self, state: Mapping[str, Any]) -> None:
        """Restores ``get_state``; RLlib may pass an empty state, which changes nothing."""
        if state:
            self.sampler.set_state(dict(state))

    def _costs_and_budget(self, infos: Mapping[str, Mapping[str, Any]], agents: list[str]) -> tuple[np.ndarray, float]:
        costs = info_values(infos, agents, self._cost_key, "BippoConfig.budget(cost_key=...)")
        budgets = info_values(infos, agents, self._budget_key, "BippoConfig.budget(budget_key=...)")
        if budgets.min() != budgets.max():
            raise ValueError(
                f"agents report different budgets ({budgets.min()} and {budgets.max()} under {self._budget_key!r}); "
                "the budget is shared: put the same number into every info"
            )
        return costs, float(budgets[0])


def log_prob_of_the_rest(log_probs: np.ndarray) -> np.ndarray:
    """``log(1 - p)`` of ``log(p)``, ``float32[N]``; p counts as at most 1 - 1e-7, so that it stays finite."""
    return np.log1p(-np.minimum(np.exp(log_probs, dtype=np.float64), 1.0 - 1e-7)).astype(np.float32)
