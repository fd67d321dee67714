"""What a deployed selector consists of. Works without Ray."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from bippo_rllib.deploy.last_round import LastRound
from bippo_rllib.learning.policy_trainer import PolicyTrainer
from bippo_rllib.learning.ppo_update import PPOSettings
from bippo_rllib.selection.budget_sampler import BudgetSampler
from bippo_rllib.selection.representativeness import Prior


@dataclass
class SelectorParts:
    """A selector as it lies in a file."""

    trainer: PolicyTrainer
    sampler: BudgetSampler
    observation_high: np.ndarray  #: ``float32[obs_dim]`` upper bounds of the observations trained on
    settings: PPOSettings = field(default_factory=PPOSettings)
    prior: Prior | None = None
    trains: list[str] | None = None  #: policies that learn; None for all
    steps: int = 0  #: of training before it was deployed
    largest: float = 0.0  #: samples of the largest client so far
    last: LastRound | None = None
