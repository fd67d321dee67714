"""The bare kernel: what no implementation on BIPPO's tensors can leave out."""

from __future__ import annotations

import time
from collections.abc import Callable

import torch

from bippo_rllib.learning.adam import StackedAdam
from bippo_rllib.learning.participation_buffer import ParticipationBatch
from bippo_rllib.learning.ppo_update import PPOSettings, update_policies
from bippo_rllib.policies.actor_critic import actor_logits, log_prob_participate
from bippo_rllib.policies.client_policy import policy_outputs
from bippo_rllib.policies.policy_bank import PolicyBank
from experiments.benchmark.rl.free_rounds import OBS_DIM, PAIR


def bare_kernel(bank: PolicyBank, num_participants: int) -> Callable[[], tuple[float, float]]:
    """A forward pass of all policies for each round of a pair and an update of the participants, all inputs ready.

    Returns:
        A function that does it and returns the seconds of the forward passes and of the update.
    """
    generator = torch.Generator().manual_seed(0)
    observations = torch.rand(len(bank.slots), 1, OBS_DIM, generator=generator)
    flat, adam = bank.flat[:num_participants].clone(), StackedAdam(num_participants, bank.layout.size)
    batch = _full_batch(bank, num_participants, generator)

    def kernel() -> tuple[float, float]:
        start = time.perf_counter()
        for _ in range(PAIR):
            with torch.no_grad():
                policy_outputs(actor_logits(bank.layout.views(bank.flat[: len(bank.slots)]), observations))
        middle = time.perf_counter()
        update_policies(flat, bank.layout, adam, batch, PPOSettings())
        return middle - start, time.perf_counter() - middle

    return kernel


def _full_batch(bank: PolicyBank, num_participants: int, generator: torch.Generator) -> ParticipationBatch:
    shape = (num_participants, PAIR)
    observations = torch.rand(*shape, OBS_DIM, generator=generator)
    with torch.no_grad():
        logits = actor_logits(bank.layout.views(bank.flat[:num_participants]), observations)
    return ParticipationBatch(
        slots=torch.arange(num_participants),
        observations=observations,
        next_observations=torch.rand(*shape, OBS_DIM, generator=generator),
        log_probs=log_prob_participate(logits),
        rewards=torch.ones(shape),
        ends=torch.zeros(shape, dtype=torch.bool),
    )
