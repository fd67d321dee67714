"""What a selector consists of."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from torch import Tensor

from bippo_rllib.federated.last_round import LastRound
from bippo_rllib.federated.ranking import Ranking
from bippo_rllib.federated.rewards import Reward
from bippo_rllib.learning.policy_trainer import PolicyTrainer
from bippo_rllib.learning.ppo_update import PPOSettings
from bippo_rllib.policies.actor_critic import ParameterLayout
from bippo_rllib.policies.policy_stack import PolicyStack
from bippo_rllib.selection.budget_sampler import BudgetSampler
from bippo_rllib.selection.representativeness import Prior
from bippo_rllib.selection.update_matching import UpdateMatching


@dataclass
class SelectorParts:
    """All that a method was trained with, as it lies in a selector's file."""

    trainer: PolicyTrainer
    sampler: BudgetSampler
    observation_high: np.ndarray  #: ``float32[obs_dim]`` upper bounds of the observations trained on
    settings: PPOSettings = field(default_factory=PPOSettings)
    prior: Prior | None = None
    matching: UpdateMatching | None = None
    ranking: Ranking | None = None  #: takes the place of the policies' suggestions
    reward: Reward | None = None  #: None if the environment has none of those
    explore: bool = True  #: whether the method tries out others than the best
    trains: list[str] | None = None  #: policies that learn; None for all
    steps: int = 0  #: of training before it was deployed
    largest: float = 0.0  #: samples of the largest client so far
    last: LastRound | None = None


def trainer_with(
    ids: Sequence[str],
    layout: ParameterLayout,
    seed: int,
    batch_size: int,
    *,
    rows: Tensor,
    adam: Mapping[str, Any],
    buffer: Mapping[str, np.ndarray],
) -> PolicyTrainer:
    """Builds a trainer of P policies from what lies in their rows.

    Args:
        ids: Their ids.
        layout: What lies where in a row.
        seed: Initial weights of further policies are keyed by it.
        batch_size: Participations per update.
        rows: ``[P, size]`` parameters; they are copied.
        adam: State of their optimiser, see ``StackedAdam.get_state``.
        buffer: Their waiting participations, see ``ParticipationBuffer.get_state``.
    """
    policies = PolicyStack()
    policies.initialize(layout, seed)
    policies.add_policies(ids, rows)
    trainer = PolicyTrainer(policies, batch_size)
    slots = policies.slots_of(ids)
    trainer.adam.set_state(adam, slots)
    trainer.buffer.set_state(buffer, slots)
    return trainer
