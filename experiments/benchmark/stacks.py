"""What every implementation has to compute in two rounds, on ready tensors: our kernel, and TorchRL's networks.

Two rounds are two forward passes of all policies and one PPO update of the participants, the first
``num_trained``, on a batch of two participations. No environment, no selection, no bookkeeping.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from bippo_rllib.learning import adam, objectives, participation_buffer, ppo_update
from bippo_rllib.policies.actor_critic import HIDDEN_SIZE, ParameterLayout, actor_logits, initial_parameters
from bippo_rllib.policies.actor_critic import log_prob_participate as log_prob
from experiments.benchmark.free_rounds import OBS_DIM

#: Rounds per update of a policy, whose batch is two participations.
PAIR = 2
LAYOUT, SETTINGS = ParameterLayout(OBS_DIM), ppo_update.PPOSettings()

#: Runs two rounds; returns the parameters ``[N, size]``, which it updates in place.
Stack = Callable[[], Tensor]


@torch.no_grad()
def _inputs(num_clients: int) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    """Returns parameters ``[N, size]``, two observations ``[N, 2, obs_dim]``, log-probs and rewards ``[N, 2]``."""
    flat = torch.stack([initial_parameters(LAYOUT, 0, str(client)) for client in range(num_clients)])
    seen = torch.rand(2, num_clients, PAIR, OBS_DIM, generator=torch.Generator().manual_seed(0))
    return flat, seen[0], seen[1], log_prob(actor_logits(LAYOUT.views(flat), seen[0])), seen[0, ..., 0]


def bare_kernel(num_clients: int, num_trained: int) -> Stack:
    """Makes ours: rows of participants are gathered, updated and scattered back."""
    flat, observations, *others = _inputs(num_clients)
    ends, trained = torch.zeros(num_clients, PAIR, dtype=torch.bool), slice(num_trained)
    fields = (tensor[trained] for tensor in (torch.arange(num_clients), observations, *others, ends))
    batch, moments = participation_buffer.ParticipationBatch(*fields), adam.StackedAdam(num_clients, LAYOUT.size)

    def run() -> Tensor:
        with torch.no_grad():
            for step in range(PAIR):
                log_prob(actor_logits(LAYOUT.views(flat), observations[:, step : step + 1]))
        ppo_update.update_policies(flat, LAYOUT, moments, batch, SETTINGS)
        return flat

    return run


def torchrl_stack(num_clients: int, num_trained: int) -> Stack:
    """Makes one of TorchRL's ``MultiAgentMLP(share_params=False)``, with one Adam over it and the same losses.

    TorchRL has no update of some of the agents: backward pass and Adam go over all of them, and the losses of the
    others are masked out. That keeps an agent as it is while it has never been trained; later, momentum moves it.
    """
    flat, *seen, old_log_probs, rewards = _inputs(num_clients)
    actor, critic = _network(flat, "actor", 2), _network(flat, "critic", 1)
    parameters = [*actor.parameters(), *critic.parameters()]
    optimizer = torch.optim.Adam(parameters, lr=SETTINGS.lr, fused=True)
    observations, next_observations = (tensor.transpose(0, 1).contiguous() for tensor in seen)  # [2, N, obs_dim]
    mask, ends = torch.arange(num_clients) < num_trained, torch.zeros_like(rewards, dtype=torch.bool)

    def values(observations: Tensor) -> Tensor:
        return critic(observations).squeeze(-1).T

    def run() -> Tensor:
        with torch.no_grad():
            for step in range(PAIR):
                log_prob(actor(observations[step]))
            before = rewards, values(observations), values(next_observations), ends
            advantages, returns = objectives.gae(*before, gamma=SETTINGS.gamma, lambda_=SETTINGS.lambda_)
        for _ in range(SETTINGS.num_epochs):
            now = log_prob(actor(observations)).T, old_log_probs, advantages, values(observations), returns
            optimizer.zero_grad()
            (objectives.ppo_loss(*now, clip_param=SETTINGS.clip_param) * mask).sum().backward()
            optimizer.step()
        return torch.cat([tensor.detach().flatten(1) for tensor in parameters], dim=1)

    return run


@torch.no_grad()
def _network(flat: Tensor, name: str, num_outputs: int) -> torch.nn.Module:
    from torchrl.modules import MultiAgentMLP

    shape = {"n_agent_inputs": OBS_DIM, "n_agent_outputs": num_outputs, "n_agents": len(flat)}
    network = MultiAgentMLP(**shape, centralized=False, share_params=False, depth=1, num_cells=HIDDEN_SIZE)
    ours = [view for key, view in LAYOUT.views(flat).items() if key.startswith(name)]
    for tensor, view in zip(network.parameters(), ours, strict=True):
        tensor.copy_(view)
    return network
