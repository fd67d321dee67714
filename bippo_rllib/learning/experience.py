"""Experience of one environment step, as learners use it. Works without Ray."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field

import numpy as np


@dataclass(frozen=True)
class Step(ABC):
    """One environment step of A agents, in agent order."""

    observations: np.ndarray  #: ``float32[A, obs_dim]`` state each acted in
    next_observations: np.ndarray  #: ``float32[A, obs_dim]`` its state after the step
    log_probs: np.ndarray  #: ``float32[A]`` log pi(participate | s)
    episode_over: bool
    episode_id: str = field(default="", kw_only=True)  #: of the episode that the step belongs to

    def __len__(self) -> int:
        """Returns the number of environment steps."""
        return 1

    def env_steps(self) -> int:
        """Returns the number of environment steps under the name that RLlib uses."""
        return 1

    def agent_steps(self) -> int:
        """Returns the number of agents with experience."""
        return len(self.observations)

    @property
    @abstractmethod
    def num_participants(self) -> int:
        """Number of participants."""


@dataclass(frozen=True)
class StepExperience(Step):
    """Experience of independent policies: the A agents are the participants."""

    slots: np.ndarray  #: ``int64[A]`` slots of their policies in the bank
    rewards: np.ndarray  #: ``float32[A]``
    departed: np.ndarray  #: ``int64[D]`` slots of the policies whose agent, participant or not, left with this step

    @property
    def num_participants(self) -> int:
        """Number of participants."""
        return len(self.slots)
