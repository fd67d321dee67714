"""Advantages and the PPO objective as pure tensor functions (paper, section 4)."""

from __future__ import annotations

import torch
from torch import Tensor


def gae(
    rewards: Tensor, values: Tensor, next_values: Tensor, ends: Tensor, *, gamma: float, lambda_: float
) -> tuple[Tensor, Tensor]:
    """Computes generalised advantage estimates over each policy's participations (paper, eq. 7).

    ``delta_k = r_k + gamma * V(s_{k+1}) - V(s_k)`` and ``A_k = delta_k + gamma * lambda * A_{k+1}``. Steps are
    consecutive participations, with one factor whatever the number of rounds between them. Nothing is terminal, so
    every delta bootstraps; the recursion alone is cut where a sequence ends.

    Args:
        rewards: ``[..., K]`` reward of the round in which the client participated.
        values: ``[..., K]`` V of the state it acted in.
        next_values: ``[..., K]`` V of the state it was in after that round.
        ends: ``bool[..., K]`` True where no later step continues this one (episode over, or the client left).
        gamma: Discount factor.
        lambda_: Bias-variance trade-off (the paper's mu).

    Returns:
        Advantages ``[..., K]`` and returns ``R = A + V``, ``[..., K]``.
    """
    deltas = rewards + gamma * next_values - values
    factors = gamma * lambda_ * (~ends).to(deltas.dtype)
    advantages = torch.empty_like(deltas)
    following = torch.zeros_like(deltas[..., 0])
    for step in range(deltas.shape[-1] - 1, -1, -1):
        following = deltas[..., step] + factors[..., step] * following
        advantages[..., step] = following
    return advantages, advantages + values


def ppo_loss(
    log_probs: Tensor,
    old_log_probs: Tensor,
    advantages: Tensor,
    values: Tensor,
    returns: Tensor,
    *,
    clip_param: float,
    vf_loss_coeff: float = 1.0,
    vf_clip_param: float | None = None,
) -> Tensor:
    """Computes clipped surrogate (paper, eq. 8) plus squared value error (eq. 9), averaged over each policy's batch.

    Args:
        log_probs: ``[..., K]`` log pi(participate | s) of the current policy.
        old_log_probs: ``[..., K]`` the same under the policy that acted.
        advantages: ``[..., K]``, not standardised: their sign is what lets a policy learn to participate less.
        values: ``[..., K]`` V(s) of the current critic.
        returns: ``[..., K]`` targets of the critic.
        clip_param: The paper's epsilon_clip.
        vf_loss_coeff: Weight of the value error.
        vf_clip_param: Upper bound of each squared value error, None for none.

    Returns:
        ``[...]`` one loss per policy; their sum has independent gradients.
    """
    ratio = torch.exp(log_probs - old_log_probs)
    surrogate = torch.minimum(ratio * advantages, ratio.clamp(1.0 - clip_param, 1.0 + clip_param) * advantages)
    value_error = (values - returns).square()
    if vf_clip_param is not None:
        value_error = value_error.clamp(max=vf_clip_param)
    return (vf_loss_coeff * value_error - surrogate).mean(dim=-1)


def clip_fraction(log_probs: Tensor, old_log_probs: Tensor, clip_param: float) -> Tensor:
    """Computes the share of each policy's samples whose ratio is outside ``[1 - clip_param, 1 + clip_param]``.

    Args:
        log_probs: ``[..., K]`` log pi(participate | s) of the current policy.
        old_log_probs: ``[..., K]`` the same under the policy that acted.
        clip_param: The paper's epsilon_clip.

    Returns:
        ``[...]``.
    """
    ratio = torch.exp(log_probs - old_log_probs)
    return (ratio != ratio.clamp(1.0 - clip_param, 1.0 + clip_param)).float().mean(dim=-1)
