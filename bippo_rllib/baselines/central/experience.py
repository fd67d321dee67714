"""Experience of the central network: one policy over all clients, a sample for each participant."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from bippo_rllib.learning.experience import Step
from bippo_rllib.learning.participation_buffer import ParticipationBatch

#: The network is the only row of its stack.
SLOT = torch.zeros(1, dtype=torch.int64)


@dataclass(frozen=True)
class CentralStep(Step):
    """Experience of the central network: the A agents are all live ones.

    ``log_probs`` are log pi(n | s) of each agent n, without regard to earlier picks.
    """

    generation: int  #: number of the network that acted, see ``CentralPolicy.set_clients``
    participated: np.ndarray  #: ``bool[A]``
    reward: float  #: mean over the participants

    @property
    def num_participants(self) -> int:
        """Number of participants."""
        return int(self.participated.sum())


@dataclass(frozen=True)
class CentralBatch(ParticipationBatch):
    """K rounds as one sequence of joint states, P = 1; every participant is a sample, with its round's advantage."""

    rounds: Tensor  #: ``int64[S]`` the samples' rounds, from 0
    clients: Tensor  #: ``int64[S]`` participants of the rounds, in agent order

    def log_probs_of(self, logits: Tensor) -> Tensor:
        """See ``ParticipationBatch``; log pi(n | s) of the softmax over all N clients."""
        return torch.log_softmax(logits, dim=-1)[:, self.rounds, self.clients]

    def of_samples(self, steps: Tensor) -> Tensor:
        """See ``ParticipationBatch``."""
        return steps[:, self.rounds]


def joint_state(observations: Tensor, shared: int) -> Tensor:
    """Returns the joint state ``[..., shared + N * (obs_dim - shared)]`` of observations ``[..., N, obs_dim]``.

    The first ``shared`` entries are the same for all agents and are taken once, from the first; then each agent's own,
    in agent order: ``1 + 4 N`` inputs for the paper's five-entry observations.
    """
    return torch.cat([observations[..., 0, :shared], observations[..., shared:].flatten(-2)], dim=-1)


def batch_of(rounds: list[CentralStep], ends: list[bool], shared: int) -> CentralBatch:
    """Returns buffered rounds, with at least one participant each, as one batch."""

    def stacked(name: str) -> Tensor:
        return torch.from_numpy(np.stack([getattr(step, name) for step in rounds])).unsqueeze(0)

    participants, clients = np.nonzero([step.participated for step in rounds])
    return CentralBatch(
        slots=SLOT,
        observations=joint_state(stacked("observations"), shared),
        next_observations=joint_state(stacked("next_observations"), shared),
        log_probs=stacked("log_probs")[:, participants, clients],
        rewards=torch.tensor([[step.reward for step in rounds]], dtype=torch.float32),
        ends=torch.tensor([ends]),
        rounds=torch.from_numpy(participants),
        clients=torch.from_numpy(clients),
    )
