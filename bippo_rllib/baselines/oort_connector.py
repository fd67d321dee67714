"""Oort as a connector of RLlib's module-to-env pipeline."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from bippo_rllib.baselines.oort import Oort
from bippo_rllib.baselines.rule import scores_in_order
from bippo_rllib.selection.connector_columns import finite_info_values, info_values
from bippo_rllib.selection.suggestion_connector import SuggestionConnector


class OortRanking(SuggestionConnector):
    """Replaces participation suggestions by Oort's order of the clients.

    After Lai, Zhu, Madhyastha, Chowdhury, "Oort: Efficient Federated Learning via Guided Participant Selection" (OSDI
    2021), arXiv:2010.06081, Algorithm 1, and the published code (github.com/SymbioticLab/Oort). Followed:

    * a client's utility is that of its data times that of its device, known from the rounds in which it trained;
    * data: utilities clipped at the 95th percentile and normalised as in the code, plus ``sqrt(0.1 log(round) / last
      round it trained in)``;
    * device: scaled by ``(T / t) ** 2`` where the client takes ``t > T``, ``T`` being set by the code's pacer;
    * exploitation: draws in proportion to utility among all that reach 95 % of the cut-off utility;
    * exploration: of clients never tried, 0.9 of the places at first, times 0.98 each round, at least 0.2.

    Deviations:

    * ``t`` is what a round costs, in the budget's unit, not how long it takes;
    * a budget replaces the number of participants: a round has as many places as the cheapest clients that
      fit, and picks that do not fit are skipped;
    * the utility of data is ``|B| * mean loss`` for the paper's ``|B| * sqrt(mean loss^2)``, since environments report
      mean losses; the two differ by how much losses vary among the samples of one client. The loss is that of the model
      after the round, not while the client trains;
    * a client that joins later is still explored, while the code explores no more once everyone was tried;
    * a first training of all clients in the environment's ``reset`` does not count as a trial.

    Pipeline: module-to-env, before a ``BudgetSamplerConnector`` with the strategy ``greedy``. Needs in the batch:
    ``participation_suggestion`` of every agent. Needs in every agent's latest info: its size, its cost, the budget and
    what it was granted in the last step; of those that were granted something, the loss. Other losses are not read:
    participants know theirs from training. Writes ``participation_suggestion``: ``N`` for the first of ``N`` agents
    down to 1 for the last.

    Args:
        loss_key: Info key of a client's mean loss, at least 0.
        size_key: Info key of its data size.
        cost_key: Info key of what it costs to train it.
        budget_key: Info key of what may be spent.
        granted_key: Info key of what it was granted in the last step, above 0 if it participated.
        failed_key: Info key of a flag: it participated, but its work was lost. Then it counts as not tried.
        client_of: Agent id -> client, whose record is continued when it returns under another agent id.
        seed: Seed of the generator of the draws.
    """

    def __init__(
        self,
        *,
        loss_key: str = "loss",
        size_key: str = "num_samples",
        cost_key: str = "cost",
        budget_key: str = "budget",
        granted_key: str = "granted_j",
        failed_key: str = "failed",
        client_of: Callable[[Any], str] = str,
        seed: int | Sequence[int] | None = None,
    ) -> None:
        super().__init__()
        self._loss_key, self._size_key, self._cost_key, self._budget_key = loss_key, size_key, cost_key, budget_key
        self._granted_key, self._failed_key, self._client_of = granted_key, failed_key, client_of
        self.oort = self.keeps = Oort(seed)

    def scores(
        self, suggestions: np.ndarray, agents: Sequence[str], infos: Mapping[str, Mapping[str, Any]]
    ) -> np.ndarray:
        """Records the participants of the last step, and ranks all clients; suggestions are not used."""
        clients = [self._client_of(agent_id) for agent_id in agents]
        sizes = finite_info_values(infos, agents, self._size_key, "OortRanking(size_key=...)")
        granted = finite_info_values(infos, agents, self._granted_key, "OortRanking(granted_key=...)")
        tried = [i for i, a in enumerate(agents) if granted[i] > 0 and not infos[a].get(self._failed_key)]
        losses = self._losses(infos, [agents[i] for i in tried])
        self.oort.feedback({clients[i]: sizes[i] * loss for i, loss in zip(tried, losses, strict=True)})
        costs = info_values(infos, agents, self._cost_key, "OortRanking(cost_key=...)")
        budget = info_values(infos, agents[:1], self._budget_key, "OortRanking(budget_key=...)")[0]
        return scores_in_order(self.oort.order(clients, sizes, costs, budget).tolist(), len(agents))

    def _losses(self, infos: Mapping[str, Mapping[str, Any]], agents: Sequence[str]) -> np.ndarray:
        losses = finite_info_values(infos, agents, self._loss_key, "OortRanking(loss_key=...)")
        if (losses < 0.0).any():
            first = agents[int(np.argmax(losses < 0.0))]
            raise ValueError(f"the info of {first!r} has {self._loss_key!r} = {losses.min()}; a loss is at least 0")
        return losses
