"""The PPO update of the central network: one policy over all clients, a sample for each that took part."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from bippo_rllib.learning.adam import StackedAdam
from bippo_rllib.learning.objectives import ppo_loss
from bippo_rllib.learning.ppo_update import PPOSettings, UpdateStatistics, descend, entropy_bonus, estimate_advantages
from bippo_rllib.policies.actor_critic import ParameterLayout, actor_logits, critic_values

#: The network is row 0 of a stack of one.
_ROW = torch.zeros(1, dtype=torch.int64)


@dataclass(frozen=True)
class CentralStep:
    """One round as the central network saw it, over the N agents that were live in it, in agent order."""

    generation: int  #: which network acted, see ``CentralPolicy.seat``
    observations: np.ndarray  #: ``float32[N, obs_dim]`` state they acted in
    next_observations: np.ndarray  #: ``float32[N, obs_dim]`` their state after the round
    participated: np.ndarray  #: ``bool[N]``
    log_probs: np.ndarray  #: ``float32[N]`` log pi(n | s) of each, whatever was picked before it
    reward: float  #: mean over the participants
    episode_over: bool

    def __len__(self) -> int:
        """Environment steps."""
        return 1

    @property
    def num_participants(self) -> int:
        return int(self.participated.sum())


@dataclass(frozen=True)
class CentralBatch:
    """K rounds, oldest first, as the one sequence of a stack of one."""

    observations: Tensor  #: ``[1, K, joint_dim]``
    next_observations: Tensor  #: ``[1, K, joint_dim]``
    participated: Tensor  #: ``bool[1, K, N]``
    log_probs: Tensor  #: ``[1, K, N]``
    rewards: Tensor  #: ``[1, K]``
    ends: Tensor  #: ``bool[1, K]`` True where no later round continues this one


def joint_state(observations: Tensor, shared: int) -> Tensor:
    """Observations ``[..., N, obs_dim]`` -> joint state ``[..., shared + N * (obs_dim - shared)]``.

    The first ``shared`` entries are the same for all agents and are taken once, from the first; then each agent's own,
    in agent order: ``1 + 4 N`` inputs for the paper's five-entry observations.
    """
    return torch.cat([observations[..., 0, :shared], observations[..., shared:].flatten(-2)], dim=-1)


def batch_of(rounds: list[CentralStep], ends: list[bool], shared: int) -> CentralBatch:
    """Buffered rounds as one batch."""

    def stacked(name: str) -> Tensor:
        return torch.from_numpy(np.stack([getattr(step, name) for step in rounds])).unsqueeze(0)

    return CentralBatch(
        observations=joint_state(stacked("observations"), shared),
        next_observations=joint_state(stacked("next_observations"), shared),
        participated=stacked("participated"),
        log_probs=stacked("log_probs"),
        rewards=torch.tensor([[step.reward for step in rounds]], dtype=torch.float32),
        ends=torch.tensor([ends]),
    )


def update_central(
    flat: Tensor, layout: ParameterLayout, adam: StackedAdam, batch: CentralBatch, settings: PPOSettings
) -> UpdateStatistics:
    """Updates the network in place.

    GAE runs over rounds: V(s) of the joint state, once before the first epoch. Every participant is a sample with its
    round's advantage and return; the loss is the mean over samples.

    Args:
        flat: ``[1, size]`` parameters.
        layout: What lies where.
        adam: The optimiser, of one row.
        batch: Rounds with at least one participant each.
        settings: Hyper-parameters.
    """
    updated, moments = flat.clone(), adam.gather(_ROW)
    rounds, clients = batch.participated[0].nonzero(as_tuple=True)
    advantages, returns = estimate_advantages(layout.views(updated), batch, settings)
    old_log_probs = batch.log_probs[:, rounds, clients]

    def losses(leaf: Tensor) -> tuple[Tensor, Tensor]:
        parameters = layout.views(leaf)
        logits = actor_logits(parameters, batch.observations)
        log_probs = torch.log_softmax(logits, dim=-1)[:, rounds, clients]
        loss = ppo_loss(
            log_probs,
            old_log_probs,
            advantages[:, rounds],
            critic_values(parameters, batch.observations)[:, rounds],
            returns[:, rounds],
            clip_param=settings.clip_param,
            vf_loss_coeff=settings.vf_loss_coeff,
            vf_clip_param=settings.vf_clip_param,
        )
        return loss - entropy_bonus(logits, settings), log_probs

    descent = descend(updated, moments, adam, losses, settings)
    flat.copy_(updated)
    adam.scatter(_ROW, moments)
    ratio_error = (torch.exp(descent.log_probs - old_log_probs) - 1.0).abs().amax(dim=-1)
    return UpdateStatistics(descent.first, descent.last, advantages[:, rounds].mean(dim=-1), ratio_error)
