"""A selector for an FL server, without RLlib or Ray: it asks trained policies whom to train, and goes on learning."""

from __future__ import annotations

import copy
import logging
from collections.abc import Collection, Hashable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from torch import Tensor

from bippo_rllib.deploy.last_round import LastRound
from bippo_rllib.deploy.reports import Reports, entries, numbers, observe
from bippo_rllib.deploy.selector_file import SelectorParts, pack, unpack, write
from bippo_rllib.policies.actor_critic import log_prob_participate
from bippo_rllib.policies.agents import policy_of
from bippo_rllib.selection.budget_sampler import BudgetSampler

logger = logging.getLogger(__name__)


class ClientSelector:
    """Selects as the method does that it was trained with: policies, prior and sampler, exploration included.

    .. code-block:: python

        selector = ClientSelector.load("results/.../bippo-r-seed7")
        while training:
            chosen = selector.select(reports, budget)
            ...  # one round of FL with the chosen clients
            selector.report(chosen, accuracies)  # leave it out to select without learning

    A client's id may be anything hashable: its policy is named by its text up to ``#``, so that ``3`` has the policy
    ``"3"``, and a client that returns as ``"client_003#1"`` that of ``"client_003"``.

    Args:
        parts: What it consists of; ``load`` reads them.
    """

    def __init__(self, parts: SelectorParts) -> None:
        self._parts = parts
        self._nobody = False  # was available in the last round

    @classmethod
    def load(cls, path: str | Path, *, sampler: BudgetSampler | None = None) -> ClientSelector:
        """Reads a selector. Nothing is unpickled.

        Args:
            path: A trial's folder, whose newest whole checkpoint is taken, a checkpoint or an exported file.
            sampler: How to pick, instead of as the method does.

        Raises:
            ValueError: If there is none, or it is of a method that only RLlib can select with; in one line.
        """
        parts = unpack(path)
        parts.sampler = sampler or parts.sampler
        return cls(parts)

    from_checkpoint = load

    def save(self, path: str | Path) -> None:
        """Writes everything into one file, also between ``select`` and ``report``.

        Args:
            path: The file; one that is there is replaced at once.
        """
        write(path, pack(self._parts))

    def __repr__(self) -> str:
        parts = self._parts
        learning = "which learn" if self.learns else "which learn nothing"
        prior = f"a prior of weight {parts.prior.weight:g}" if parts.prior else "no prior"
        return f"{len(self.policy_ids)} policies, {learning}, {prior}, sampler {parts.sampler.strategy}"

    @property
    def policy_ids(self) -> list[str]:
        """Clients it has a policy for."""
        return list(self._parts.trainer.policies.slots)

    @property
    def learns(self) -> bool:
        """Whether any policy learns; none does in methods like ``fedavg`` and ``rep``."""
        return self._parts.trains != []

    def add(self, client: Hashable) -> None:
        """Gives a client a fresh policy, the one that training would start it with, unless it has one."""
        self._add([policy_of(client)])

    def remove(self, client: Hashable) -> None:
        """Forgets a client's policy. One that is only away needs no removing: leave it out of the reports.

        Raises:
            ValueError: If it has none.
        """
        if policy_of(client) not in self._parts.trainer.policies.slots:
            raise ValueError(f"there is no policy of {client!r} to remove")
        self._parts.trainer.remove_policy(policy_of(client))

    def suggestions(self, reports: Reports, budget: float) -> dict[Any, float]:
        """What ``select`` would go by: each client's P(participate), with the prior where there is one.

        Learns and records nothing. Arguments and errors are those of ``select``.
        """
        clients, ids = _in_order(reports)
        if not clients:
            return {}
        observations, _ = self._observe(clients, ids, reports, budget)
        scores = ClientSelector(copy.deepcopy(self._parts))._scores(clients, ids, observations, reports)[1]
        return dict(zip(clients, scores.tolist(), strict=True))

    def select(self, reports: Reports, budget: float, *, explore: bool = True) -> list[Any]:
        """Clients to train in this round, in the order picked; their summed cost fits the budget.

        If the last round was reported, policies learn from it first: these reports show what it led to. A client
        without a policy gets a fresh one.

        Args:
            reports: Of all clients that are available, see ``Reports``.
            budget: What the round may spend, at least 0; ``math.inf`` lifts the limit.
            explore: If False, the best are picked and nothing is tried out.

        Raises:
            ValueError: For a number that is missing or out of range, which is named with its client.
        """
        parts = self._parts
        clients, ids = _in_order(reports)
        self._nobody = not clients
        if self._nobody:
            return []
        observations, costs = self._observe(clients, ids, reports, budget)
        accuracies = numbers(reports, clients, "accuracy", optional=True)
        log_probs, scores = self._scores(clients, ids, observations, reports)
        picked = parts.sampler.select(scores, costs, budget, explore, names=[repr(client) for client in clients])
        parts.largest = self._largest(clients, reports)
        parts.last = LastRound(
            policy_ids=ids,
            observations=observations,
            log_probs=log_probs.numpy(),
            accuracies=accuracies,
            trained=np.isin(np.arange(len(ids)), picked),
            rewards=np.full(len(ids), np.nan, dtype=np.float32),
        )
        return [clients[i] for i in picked]

    def report(
        self,
        selected: Collection[Any],
        accuracies: Mapping[Any, float] | None = None,
        *,
        effects: Mapping[Any, float] | None = None,
        rewards: Mapping[Any, float] | float | None = None,
    ) -> None:
        """Says how the round went that ``select`` began. Policies of clients that stay learn from it when it returns.

        Args:
            selected: Clients that trained and whose work counted, whether or not ``select`` chose them.
            accuracies: After the round, by client. The reward of all is that of the change of the mean, over clients
                with an accuracy before and after.
            effects: Instead, leave-one-out, what ``bippo-r`` is trained on: for each of ``selected`` the mean accuracy
                of the new model minus that of the model averaged without it.
            rewards: Instead, rewards of another kind: one for all, or by client.

        Raises:
            ValueError: If no round was begun, for clients that were not in it, and for numbers that are missing.
        """
        if self._nobody and not selected:
            return
        if self._nobody or self._parts.last is None:
            raise ValueError("there is no round to report; call select first")
        self._parts.last.pay(selected, accuracies, effects, rewards)

    def _observe(
        self, clients: Sequence[Any], ids: Sequence[str], reports: Reports, budget: float
    ) -> tuple[np.ndarray, np.ndarray]:
        """Observations ``float32[N, obs_dim]`` and costs; what ``select`` reads is checked before anything changes."""
        parts = self._parts
        if not budget >= 0.0:
            raise ValueError(f"the budget is {budget}; it must be at least 0 (math.inf for no limit)")
        costs = numbers(reports, clients, "cost")
        if parts.prior is not None:
            numbers(reports, clients, parts.prior.key)
        trained, largest = self._trained(clients, ids, reports), self._largest(clients, reports)
        return observe(reports, clients, costs, trained, budget, largest, parts.observation_high), costs

    def _trained(self, clients: Sequence[Any], ids: Sequence[str], reports: Reports) -> np.ndarray:
        """``bool[N]``: who trained in the last round; everybody before the first, as after a round of all."""
        last = self._parts.last
        remembered = dict(zip(last.policy_ids, last.trained.tolist(), strict=True)) if last else {}
        said = entries(reports, clients, "trained")
        flags = [remembered.get(p, last is None) if flag is None else flag for p, flag in zip(ids, said, strict=True)]
        return np.array(flags, dtype=bool)

    def _largest(self, clients: Sequence[Any], reports: Reports) -> float:
        """Samples of the largest client so far."""
        return float(np.nanmax([self._parts.largest, *numbers(reports, clients, "samples", optional=True)]))

    def _scores(
        self, clients: Sequence[Any], ids: Sequence[str], observations: np.ndarray, reports: Reports
    ) -> tuple[Tensor, np.ndarray]:
        """Learns from the last round; log pi(participate | s) and what the sampler picks by, ``[N]`` each."""
        self._learn(ids, observations)
        self._add(ids)
        policies, prior = self._parts.trainer.policies, self._parts.prior
        log_probs = log_prob_participate(policies.logits(policies.slots_of(ids), observations))
        suggestions = log_probs.exp().numpy()
        if prior is None:
            return log_probs, suggestions
        return log_probs, prior.scores(suggestions, ids, numbers(reports, clients, prior.key))

    def _learn(self, ids: Sequence[str], observations: np.ndarray) -> None:
        parts = self._parts
        if parts.last is None:
            return
        step = parts.last.experience(parts.trainer.policies, ids, observations)
        parts.trainer.store(step, lambda policy_id: parts.trains is None or policy_id in parts.trains)
        parts.trainer.update_full(parts.settings)

    def _add(self, ids: Sequence[str]) -> None:
        new = [policy_id for policy_id in ids if policy_id not in self._parts.trainer.policies.slots]
        if new:
            logger.warning("no policies yet, so fresh ones, for %s", ", ".join(new))
            self._parts.trainer.add_policies(new)


def _in_order(reports: Reports) -> tuple[list[Any], list[str]]:
    """Clients in the order that training has them in, and their policies."""
    try:
        clients = sorted(reports)
    except TypeError:  # ids of several kinds
        clients = sorted(reports, key=str)
    by_id: dict[str, Any] = {}
    for client in clients:
        other = by_id.setdefault(policy_of(client), client)
        if other is not client:
            raise ValueError(f"{other!r} and {client!r} would share the policy {policy_of(client)!r}; leave one out")
    return clients, list(by_id)
