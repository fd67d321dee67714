"""The PPO update of all policies whose batch is full, in one set of batched tensor operations."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

import torch
from torch import Tensor

from bippo_rllib.learning.adam import StackedAdam
from bippo_rllib.learning.objectives import clip_fraction, gae, ppo_loss
from bippo_rllib.learning.participation_buffer import ParticipationBatch
from bippo_rllib.policies.actor_critic import ParameterLayout, actor_logits, critic_values


@dataclass(frozen=True)
class PPOSettings:
    """Hyper-parameters of an update; defaults are the paper's.

    Without ``use_critic``, V is 0 everywhere and critics do not change: for rewards that are already differences to not
    participating, and so need no other baseline.
    """

    lr: float = 1e-3
    num_epochs: int = 8
    gamma: float = 0.9
    lambda_: float = 0.8
    clip_param: float = 0.2
    vf_loss_coeff: float = 1.0
    vf_clip_param: float | None = None
    entropy_coeff: float = 0.0
    grad_clip: float | None = None
    use_critic: bool = True

    @classmethod
    def of(cls, config: Any) -> PPOSettings:
        """Returns the settings of an RLlib config, which has them under the same names."""
        return cls(**{field.name: getattr(config, field.name) for field in fields(cls)})


@dataclass(frozen=True)
class UpdateStatistics:
    """Statistics of an update, one entry per updated policy (``[P]``)."""

    slots: Tensor
    loss_first_epoch: Tensor
    loss_last_epoch: Tensor
    advantage: Tensor  #: mean over the batch
    clip_fraction: Tensor  #: share of the batch whose ratio was clipped in the last epoch

    def metrics(self) -> dict[str, Tensor]:
        """Returns statistics by name, ``[P]`` each, of which learners report mean, minimum and maximum."""
        return {name: tensor for name, tensor in vars(self).items() if name != "slots"}


def update_policies(
    flat: Tensor, layout: ParameterLayout, adam: StackedAdam, batch: ParticipationBatch, settings: PPOSettings
) -> UpdateStatistics:
    """Updates the policies of ``batch`` in place; every other row of parameters and moments keeps its bits.

    V is computed once before the first epoch and then fixed; each epoch is one full-batch Adam step on the mean loss of
    each policy's samples.

    Args:
        flat: ``[N, size]`` parameters of all policies.
        layout: Layout of a row.
        adam: Optimiser of all policies.
        batch: Full batches of P policies.
        settings: Hyper-parameters.
    """
    updated, moments = flat[batch.slots], adam.gather(batch.slots)
    advantages, returns = map(batch.of_samples, _advantages(layout.views(updated), batch, settings))
    losses: list[Tensor] = []
    for _ in range(settings.num_epochs):
        leaf = updated.detach().requires_grad_(True)
        parameters = layout.views(leaf)
        logits = actor_logits(parameters, batch.observations)
        log_probs = batch.log_probs_of(logits)
        values = batch.of_samples(_state_values(parameters, batch.observations, settings))
        loss = ppo_loss(
            log_probs,
            batch.log_probs,
            advantages,
            values,
            returns,
            clip_param=settings.clip_param,
            vf_loss_coeff=settings.vf_loss_coeff if settings.use_critic else 0.0,
            vf_clip_param=settings.vf_clip_param,
        ) - _entropy_bonus(logits, settings)
        losses.append(loss.detach())
        (gradients,) = torch.autograd.grad(loss.sum(), leaf)  # of independent losses
        if settings.grad_clip is not None:
            gradients = _clip_per_policy(gradients, settings.grad_clip)
        adam.step(updated, gradients, moments, settings.lr)
    flat[batch.slots] = updated
    adam.scatter(batch.slots, moments)
    clipped = clip_fraction(log_probs.detach(), batch.log_probs, settings.clip_param)
    return UpdateStatistics(batch.slots, losses[0], losses[-1], advantages.mean(dim=-1), clipped)


@torch.no_grad()
def _advantages(
    parameters: Mapping[str, Tensor], batch: ParticipationBatch, settings: PPOSettings
) -> tuple[Tensor, Tensor]:
    """Computes advantages and returns, ``[P, K]`` under the critics of ``parameters``, or without any."""
    values = _state_values(parameters, batch.observations, settings)
    next_values = _state_values(parameters, batch.next_observations, settings)
    return gae(batch.rewards, values, next_values, batch.ends, gamma=settings.gamma, lambda_=settings.lambda_)


def _state_values(parameters: Mapping[str, Tensor], observations: Tensor, settings: PPOSettings) -> Tensor:
    """Computes V of observations ``[P, K, obs_dim]`` -> ``[P, K]``; 0 without critics."""
    if not settings.use_critic:
        return observations.new_zeros(observations.shape[:-1])
    return critic_values(parameters, observations)


def _entropy_bonus(logits: Tensor, settings: PPOSettings) -> Tensor | float:
    """Computes the bonus to subtract from each policy's loss: logits ``[P, K, num_actions]`` -> ``[P]``."""
    if not settings.entropy_coeff:
        return 0.0
    log_probs = torch.log_softmax(logits, dim=-1)
    return settings.entropy_coeff * -(log_probs.exp() * log_probs).sum(dim=-1).mean(dim=-1)


def _clip_per_policy(gradients: Tensor, max_norm: float) -> Tensor:
    """Scales each policy's gradient ``[P, size]`` to a norm of at most ``max_norm``, as ``clip_grad_norm_`` does."""
    norms = gradients.square().sum(dim=1, keepdim=True).sqrt()
    return gradients * (max_norm / (norms + 1e-6)).clamp(max=1.0)
