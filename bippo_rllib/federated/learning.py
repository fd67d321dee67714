"""Learns from the last round, beside the selector, which stays unchanged until the result is taken over."""

from __future__ import annotations

import torch

from bippo_rllib.federated.observed import Observed
from bippo_rllib.federated.selector_parts import SelectorParts, trainer_with
from bippo_rllib.learning.policy_trainer import PolicyTrainer


def learned(parts: SelectorParts, observed: Observed) -> PolicyTrainer:
    """Copies the policies that the last round changes into a trainer, which then learns from it.

    Args:
        parts: The selector; unchanged.
        observed: The available clients, whose observations show the outcome of the last round.

    Returns:
        The changed policies alone.

    Raises:
        ValueError: If the update diverges; in one line.
    """
    trainer, last = parts.trainer, parts.last
    policies, buffer = trainer.policies, trainer.buffer
    touched = [] if last is None else last.touches(observed.ids)
    ids = sorted((p for p in touched if p in policies.slots), key=policies.slots.__getitem__)
    slots = policies.slots_of(ids)
    result = trainer_with(
        ids,
        policies.layout,
        policies.seed,
        buffer.batch_size,
        rows=policies.flat[slots],
        adam=trainer.adam.get_state(slots),
        buffer=buffer.get_state(slots),
    )
    if last is not None:
        step = last.experience(result.policies, observed.ids, observed.observations)
        result.store(step, lambda policy_id: parts.trains is None or policy_id in parts.trains)
        result.update_full(parts.settings)
        _check_learned(result)
    return result


def take_over(trainer: PolicyTrainer, changed: PolicyTrainer) -> None:
    """Replaces the policies of ``trainer`` by the ones in ``changed``, and adds new ones."""
    ids = list(changed.policies.slots)
    trainer.add_policies(ids)
    here, there = trainer.policies.slots_of(ids), changed.policies.slots_of(ids)
    trainer.policies.flat[here] = changed.policies.flat[there]
    trainer.adam.set_state(changed.adam.get_state(there), here)
    trainer.buffer.set_state(changed.buffer.get_state(there), here)


def _check_learned(trainer: PolicyTrainer) -> None:
    """Refuses an update that overflowed, from which the policies would never recover."""
    moments = trainer.adam.all
    finite = [rows.isfinite().all(dim=1) for rows in (trainer.policies.flat, moments.exp_avg, moments.exp_avg_sq)]
    diverged = (~torch.stack(finite).all(dim=0)).nonzero().flatten().tolist()
    if diverged:
        raise ValueError(
            f"what {trainer.policies.ids[diverged[0]]!r} would learn from the last rewards is not finite; call update "
            "again with smaller ones, or without any to learn nothing from the round"
        )
