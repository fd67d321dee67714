"""A selector for an FL server, without RLlib or Ray: trained policies select clients, and continue to learn."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Collection, Hashable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from bippo_rllib.federated.fresh_selector import fresh_parts
from bippo_rllib.federated.last_round import LastRound
from bippo_rllib.federated.learning import learned, take_over
from bippo_rllib.federated.observed import Observed
from bippo_rllib.federated.observing import observe
from bippo_rllib.federated.prediction import Prediction, predict
from bippo_rllib.federated.reports import Reports, check_name, checked_clients
from bippo_rllib.federated.rewards import Reward
from bippo_rllib.federated.selector_fields import check_set_score_sampler
from bippo_rllib.federated.selector_file import pack, unpack, write
from bippo_rllib.federated.selector_parts import SelectorParts
from bippo_rllib.federated.selector_settings import settings_of
from bippo_rllib.federated.update_profiles import PROFILE_SIZE
from bippo_rllib.learning.policy_trainer import PolicyTrainer
from bippo_rllib.policies.agents import policy_of
from bippo_rllib.selection.budget_sampler import BudgetSampler

logger = logging.getLogger(__name__)


class ClientSelector:
    """Selects as the method does that it was trained with: policies, prior and sampler, exploration included.

    .. code-block:: python

        selector = ClientSelector.load("results/.../bippo-r-seed7")
        while training:
            chosen = selector.select(reports, budget_j)
            ...  # one round of FL with the chosen clients
            selector.update(chosen, accuracies)  # without accuracies nothing is learned

    A client's id may be anything hashable: its policy is named by its text up to ``#``, so that ``3`` has the policy
    ``"3"``, and a client that returns as ``"client_003#1"`` that of ``"client_003"``.

    Args:
        parts: What it consists of; ``load`` reads them.
    """

    def __init__(self, parts: SelectorParts) -> None:
        self._parts = parts
        #: The ``scores`` that the latest ``select`` picked by; empty before the first one, and not saved.
        self.last_scores: dict[Any, float] = {}

    @classmethod
    def load(
        cls, path: str | Path, *, sampler: BudgetSampler | None = None, reward: Reward | None = None
    ) -> ClientSelector:
        """Reads a selector. Nothing is unpickled.

        Args:
            path: A trial's folder, whose newest whole checkpoint is taken, a checkpoint or an exported file.
            sampler: How to pick, instead of as the method does.
            reward: What accuracies and effects are worth, instead of what they were in training; needed to report them
                if the environment was none of ``envs``.

        Raises:
            ValueError: If there is none, it is damaged, it is of a method that only RLlib can select with, or
                ``sampler`` cannot pick as the method needs; in one line.
        """
        parts = unpack(path)
        parts.sampler = sampler or parts.sampler
        if parts.matching is not None:
            check_set_score_sampler(parts.sampler.strategy)
        parts.reward = reward or parts.reward
        return cls(parts)

    @classmethod
    def fresh(cls, method: str, *, seed: int | None = None) -> ClientSelector:
        """Makes a selector that no simulation has trained; it learns from the first round.

        It is the one that an untrained algorithm of the method would export. Policies are added as clients appear.

        Args:
            method: ``bippo-s``, ``bippo-r``, ``bippo``, ``ippo``, ``rep``, ``random``, ``cyclic``, ``oort``, ``poc``,
                ``poca`` or another one in ``bippo_rllib.method_settings``.
            seed: Seed of initial weights and draws; None for a random one.

        Raises:
            ValueError: If the method has no selector, or for a seed out of range; in one line.
        """
        return cls(fresh_parts(method, seed))

    def save(self, path: str | Path) -> None:
        """Writes everything into one file, also between ``select`` and ``update``.

        Args:
            path: The file; one that is there is replaced at once.

        Raises:
            ValueError: If ``load`` could not read it, as with a custom sampler; then nothing is written.
        """
        write(path, self.to_bytes())

    def to_bytes(self) -> bytes:
        """Returns the content that ``save`` writes; raises the same errors."""
        return pack(self._parts)

    def __repr__(self) -> str:
        parts = self._parts
        learning = "which learn" if self.learns else "which learn nothing"
        prior = f"a prior of weight {parts.prior.weight:g}" if parts.prior else "no prior"
        matching = f", update matching of weight {parts.sampler.set_weight:g}" if parts.matching else ""
        exploring = "" if parts.explore else " without exploration"
        ranking = f", ranking {parts.ranking.name}" if parts.ranking else ""
        sampler = f"sampler {parts.sampler.strategy}{exploring}"
        return f"{len(self.policy_ids)} policies, {learning}, {prior}{matching}{ranking}, {sampler}"

    @property
    def policy_ids(self) -> list[str]:
        """Clients it has a policy for."""
        return list(self._parts.trainer.policies.slots)

    @property
    def reward(self) -> Reward | None:
        """The reward of accuracies and effects; None if the environment of the training had another."""
        return self._parts.reward

    @property
    def learns(self) -> bool:
        """Whether any policy learns; none does in methods like ``fedavg`` and ``rep``."""
        return self._parts.trains != []

    @property
    def settings(self) -> dict[str, Any]:
        """What it is made with and keeps, by name; neither its seed nor anything that rounds change."""
        return settings_of(self._parts)

    @property
    def profile_size(self) -> int | None:
        """Numbers in the update profiles that it selects by, 64 before the first one; None if it reads none."""
        matching = self._parts.matching
        return None if matching is None else matching.profile_size or PROFILE_SIZE

    @property
    def needs_loss(self) -> bool:
        """Whether clients have to report a ``loss``, as ``oort`` and ``poc`` need it."""
        prior, ranking = self._parts.prior, self._parts.ranking
        return (prior is not None and prior.key == "loss") or (ranking is not None and ranking.needs_loss)

    def add(self, client: Hashable) -> None:
        """Gives a client a fresh policy, the one that training would start it with, unless it has one.

        Raises:
            ValueError: If its text cannot name a policy.
        """
        check_name(client)
        self._parts.trainer.add_policies([policy_of(client)])

    def remove(self, client: Hashable) -> None:
        """Forgets a client's policy, and what it would have learned from the last round.

        What it has reported stays, its record and its update profile, should it return. A client that is only away
        needs no removing: leave it out of the reports.

        Raises:
            ValueError: If it has none.
        """
        policy_id, last = policy_of(client), self._parts.last
        if policy_id not in self._parts.trainer.policies.slots:
            raise ValueError(f"there is no policy of {client!r} to remove")
        self._parts.trainer.remove_policy(policy_id)
        if last is not None:
            last.remove(policy_id)

    def forget_updates(self) -> None:
        """Forgets all update profiles, before clients train another model, such as a real one after a simulated one.

        What updates change of one model says nothing about another, even one of the same layers that starts from other
        weights. Clients then count as the average candidate until they have trained. Policies and priors stay.
        """
        if self._parts.matching is not None:
            self._parts.matching.clear()

    def scores(self, reports: Reports, budget_j: float) -> dict[Any, float]:
        """Returns what ``select`` would pick by: each client's score.

        It is the suggestion of the client's policy, P(participate), adjusted by a prior if there is one, or what a
        ranking puts in its place, such as the loss; ``-inf`` if that leaves the client out.

        Neither learns nor records anything. Arguments and errors are as in ``select``.
        """
        observed = observe(self._parts, reports, budget_j)
        prediction = predict(self._parts, self._learn(observed), observed)
        return dict(zip(observed.clients, prediction.scores.tolist(), strict=True))

    def select(self, reports: Reports, budget_j: float, *, explore: bool | None = None) -> list[Any]:
        """Selects the clients to train in this round; their summed cost never exceeds the budget.

        Policies first learn from the last round if ``update`` gave it rewards, since these reports show its outcome.
        A client without a policy gets a fresh one. An empty ``reports`` means that all clients have left.

        Args:
            reports: Reports of all available clients, see ``Reports``.
            budget_j: Joules, or whatever the unit of the costs is, that the round may spend, at least 0; ``math.inf``
                lifts the limit.
            explore: If False, takes the likeliest choice of each pick, which may be to spend no more, and explores
                nothing; by default as the method does.

        Returns:
            The selected clients, in the order picked.

        Raises:
            ValueError: For a number that is missing or out of range; the message names the client. The selector is
                unchanged then.
        """
        parts = self._parts
        observed = observe(parts, reports, budget_j)
        changed = self._learn(observed)
        prediction = predict(parts, changed, observed)
        picked = self._pick(observed, prediction, parts.explore if explore is None else explore)
        known = parts.trainer.policies.slots
        if new := [policy_id for policy_id in observed.ids if policy_id not in known]:
            # Expected of a fresh selector, and otherwise perhaps a mistaken id.
            level = logging.WARNING if known else logging.INFO
            logger.log(level, "no policies yet, so fresh ones, for %s", ", ".join(new))
        take_over(parts.trainer, changed)
        parts.prior, parts.matching, parts.ranking = prediction.prior, prediction.matching, prediction.ranking
        self.last_scores = dict(zip(observed.clients, prediction.scores.tolist(), strict=True))
        parts.largest = observed.largest
        parts.last = LastRound(
            policy_ids=observed.ids,
            observations=observed.observations,
            log_probs=prediction.log_probs,
            accuracies=observed.accuracies,
            trained=np.isin(np.arange(len(observed.ids)), picked),
            rewards=np.full(len(observed.ids), np.nan, dtype=np.float32),
            removed=np.zeros(len(observed.ids), dtype=bool),
        )
        return [observed.clients[i] for i in picked]

    def update(
        self,
        trained: Collection[Any],
        accuracies: Mapping[Any, float] | None = None,
        *,
        effects: Mapping[Any, float] | None = None,
        rewards: Mapping[Any, float] | float | None = None,
    ) -> None:
        """Records which clients trained in the round that ``select`` started, and their rewards.

        Policies of the clients that are still available learn from it in the next ``select``. Without accuracies,
        effects and rewards nothing is learned. A second call replaces the first.

        Args:
            trained: Clients that trained and whose update was aggregated, whether or not ``select`` chose them.
            accuracies: Accuracies after the round, by client. All participants get the reward of the change of the
                mean over the clients with an accuracy before and after.
            effects: Each participant's effect on the mean accuracy, in [-1, 1]. ``bippo-r`` is trained with the mean
                accuracy of the new model minus that of the model averaged without the participant, ``bippo-s`` with
                the participant's Shapley value (``envs.rules.shapley``).
            rewards: Rewards of another kind: one for all, or by client.

        Raises:
            ValueError: If no round was started, for more than one kind of reward, for clients that were not in the
                reports, for numbers that are missing or out of range, and where the reward function is not known. The
                selector is unchanged then.
        """
        if self._parts.last is None:
            raise ValueError("there is no round to update; call select first")
        self._parts.last.set_rewards(checked_clients(trained, "trained"), accuracies, effects, rewards, self.reward)
        given = effects if accuracies is None else accuracies
        if given is not None and self.reward and self.reward.is_of_effects != (effects is not None):
            warnings.warn(f"policies trained on {self.reward.name} now learn from another reward", stacklevel=2)

    def _learn(self, observed: Observed) -> PolicyTrainer:
        """Returns the policies that the last round changes, and fresh ones of new clients; nothing else changes."""
        changed, known = learned(self._parts, observed), self._parts.trainer.policies.slots
        changed.add_policies([policy_id for policy_id in observed.ids if policy_id not in known])
        return changed

    def _pick(self, observed: Observed, prediction: Prediction, explore: bool) -> np.ndarray:
        """Returns ``int64[K]``, the indices of the selected clients; if that fails the sampler is unchanged."""
        sampler = self._parts.sampler
        state = sampler.get_state()
        try:
            with np.errstate(over="ignore", invalid="ignore"):  # of huge updates, which the sampler refuses
                return sampler.select(
                    np.where(observed.candidates, prediction.scores, -np.inf),
                    observed.costs_j,
                    observed.budget_j,
                    explore,
                    names=[repr(client) for client in observed.clients],
                    **({} if prediction.matching is None else {"set_score": prediction.matching}),
                )
        except ValueError:
            sampler.set_state(state)
            raise
