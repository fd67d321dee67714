"""What policies say of the clients that are available once they have learned from the last round.

Computed beside the selector, which stays as it is until ``apply``: whatever is refused on the way changes nothing.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from bippo_rllib.federated.observing import Observed
from bippo_rllib.federated.selector_parts import SelectorParts, trainer_with
from bippo_rllib.learning.policy_trainer import PolicyTrainer
from bippo_rllib.policies.actor_critic import log_prob_participate
from bippo_rllib.selection.representativeness import Prior, Representativeness


@dataclass(frozen=True)
class Prediction:
    """Of N clients, and the selector's next state."""

    log_probs: np.ndarray  #: ``float32[N]`` log pi(participate | s)
    scores: np.ndarray  #: ``[N]`` what the sampler picks by
    new: list[str]  #: policies that there were none of
    changed: PolicyTrainer  #: of the policies that the last round changes, and the new ones, alone
    prior: Prior | None  #: with the reports recorded

    def apply(self, parts: SelectorParts) -> None:
        """Takes over what the policies learned, the new ones and the prior's record."""
        trainer, changed = parts.trainer, self.changed
        trainer.add_policies(self.new)
        ids = list(changed.policies.slots)
        here, there = trainer.policies.slots_of(ids), changed.policies.slots_of(ids)
        trainer.policies.flat[here] = changed.policies.flat[there]
        trainer.adam.set_state(changed.adam.get_state(there), here)
        trainer.buffer.set_state(changed.buffer.get_state(there), here)
        parts.prior = self.prior


def predict(parts: SelectorParts, observed: Observed) -> Prediction:
    """Computes what the policies suggest, after the update that the last round leads to; ``parts`` stay as they are.

    Raises:
        ValueError: If that update diverges.
    """
    new = [policy_id for policy_id in observed.ids if policy_id not in parts.trainer.policies.slots]
    changed = _learned(parts, observed)
    changed.add_policies(new)
    log_probs = log_prob_participate(_logits(parts.trainer, changed, observed))
    suggestions = log_probs.exp().numpy()
    if parts.prior is None or observed.prior_reports is None or not observed.ids:
        return Prediction(log_probs.numpy(), suggestions, new, changed, parts.prior)
    prior = _copy_of(parts.prior)
    with np.errstate(over="ignore", invalid="ignore"):  # of huge reports; the sampler refuses what becomes NaN
        scores = prior.scores(suggestions, observed.ids, observed.prior_reports)
    return Prediction(log_probs.numpy(), scores, new, changed, prior)


def _learned(parts: SelectorParts, observed: Observed) -> PolicyTrainer:
    """Copies the policies that the last round touches into a trainer of their own, which then learns from it."""
    trainer, last = parts.trainer, parts.last
    policies, buffer = trainer.policies, trainer.buffer
    touched = [] if last is None else last.touches(observed.ids)
    ids = sorted((p for p in touched if p in policies.slots), key=policies.slots.__getitem__)
    slots = policies.slots_of(ids)
    alone = trainer_with(
        ids,
        policies.layout,
        policies.seed,
        buffer.batch_size,
        rows=policies.flat[slots],
        adam=trainer.adam.get_state(slots),
        buffer=buffer.get_state(slots),
    )
    if last is not None:
        step = last.experience(alone.policies, observed.ids, observed.observations)
        alone.store(step, lambda policy_id: parts.trains is None or policy_id in parts.trains)
        alone.update_full(parts.settings)
        _check_learned(alone)
    return alone


def _check_learned(trainer: PolicyTrainer) -> None:
    """Refuses an update that overflowed, of which the policies would never recover."""
    moments = trainer.adam.all
    finite = [rows.isfinite().all(dim=1) for rows in (trainer.policies.flat, moments.exp_avg, moments.exp_avg_sq)]
    diverged = (~torch.stack(finite).all(dim=0)).nonzero().flatten().tolist()
    if diverged:
        raise ValueError(
            f"what {trainer.policies.ids[diverged[0]]!r} would learn from the last rewards is not finite; "
            "call update again with smaller ones, or without any to learn nothing from the round"
        )


def _logits(trainer: PolicyTrainer, changed: PolicyTrainer, observed: Observed) -> Tensor:
    """``[N, 2]``: of each client by its policy in ``changed``, or else in ``trainer``."""
    result = torch.empty(len(observed.ids), 2)
    is_changed = np.array([policy_id in changed.policies.slots for policy_id in observed.ids], dtype=bool)
    for policies, which in ((changed.policies, is_changed), (trainer.policies, ~is_changed)):
        index = np.flatnonzero(which)
        slots = policies.slots_of([observed.ids[i] for i in index.tolist()])
        result[torch.from_numpy(index)] = policies.logits(slots, observed.observations[index])
    return result


def _copy_of(prior: Prior) -> Prior:
    record = Representativeness()
    record.set_state(prior.record.get_state())
    return replace(prior, record=record)
