"""The PPO update of the central network: one policy over all clients, a sample for each that took part."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from bippo_rllib.learning.adam import StackedAdam
from bippo_rllib.learning.experience import Step
from bippo_rllib.learning.objectives import clip_fraction
from bippo_rllib.learning.participation_buffer import Sequences
from bippo_rllib.learning.ppo_update import (
    PPOSettings,
    UpdateStatistics,
    estimate_advantages,
    run_epochs,
    state_values,
    total_loss,
)
from bippo_rllib.policies.actor_critic import ParameterLayout, actor_logits

#: The network is the only row of its stack.
SLOT = torch.zeros(1, dtype=torch.int64)


@dataclass(frozen=True)
class CentralStep(Step):
    """What the central network learns from: the agents are all that were live in the round.

    ``log_probs`` are log pi(n | s) of each agent n, whatever was picked before it.
    """

    generation: int  #: which network acted, see ``CentralPolicy.set_clients``
    participated: np.ndarray  #: ``bool[A]``
    reward: float  #: mean over the participants

    @property
    def num_participants(self) -> int:
        """Agents that took part."""
        return int(self.participated.sum())


@dataclass(frozen=True)
class CentralBatch(Sequences):
    """K rounds as one sequence of joint states, P = 1; ``log_probs`` are ``[1, K, N]``."""

    participated: Tensor  #: ``bool[1, K, N]``


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
        slots=SLOT,
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
        adam: Optimiser of one row.
        batch: Rounds with at least one participant each.
        settings: Hyper-parameters.
    """
    updated, moments = flat.clone(), adam.gather(batch.slots)
    rounds, clients = batch.participated[0].nonzero(as_tuple=True)
    advantages, returns = estimate_advantages(layout.views(updated), batch, settings)
    sample_advantages, sample_returns = advantages[:, rounds], returns[:, rounds]
    old_log_probs = batch.log_probs[:, rounds, clients]

    def losses(leaf: Tensor) -> tuple[Tensor, Tensor]:
        parameters = layout.views(leaf)
        logits = actor_logits(parameters, batch.observations)
        log_probs = torch.log_softmax(logits, dim=-1)[:, rounds, clients]
        values = state_values(parameters, batch.observations, settings)[:, rounds]
        loss = total_loss(log_probs, old_log_probs, sample_advantages, values, sample_returns, logits, settings)
        return loss, log_probs

    first, last, log_probs = run_epochs(updated, moments, adam, losses, settings)
    flat.copy_(updated)
    adam.scatter(batch.slots, moments)
    clipped = clip_fraction(log_probs, old_log_probs, settings.clip_param)
    return UpdateStatistics(batch.slots, first, last, sample_advantages.mean(dim=-1), clipped)
