"""What is observed of the clients that are available in a round."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from bippo_rllib.federated.reports import Reports


@dataclass(frozen=True)
class Observed:
    """The N available clients, in the order of training."""

    reports: Reports
    clients: list[Any]
    ids: list[str]  #: of their policies
    observations: np.ndarray  #: ``float32[N, obs_dim]``
    budget_j: float
    costs_j: np.ndarray  #: ``float64[N]``
    accuracies: np.ndarray  #: ``float64[N]``; NaN where none was reported
    largest: float  #: training samples of the largest client so far
    trained: np.ndarray  #: ``bool[N]`` whether each trained in the last round
    candidates: np.ndarray  #: ``bool[N]`` whether each may be selected
    prior_reports: np.ndarray | None  #: ``float64[N]`` what the prior reads; None without a prior
    updates: list[dict[str, Any]] | None  #: ``[N]`` what update matching reads; None without it
