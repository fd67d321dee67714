"""The observations of clients, ``float32[N, 5]``, and their space. Pure functions."""

from __future__ import annotations

import math

import gymnasium
import numpy as np

#: Columns of an observation.
MEAN_ACCURACY, DATA_SIZE, OWN_ACCURACY, COST_SHARE, TRAINED_LAST_ROUND = range(5)
OBSERVATION_SIZE = 5


def observation_space(largest_cost_share: float) -> gymnasium.spaces.Box:
    """From 0 to 1 in every column, but to ``largest_cost_share`` in that of the energy."""
    high = np.ones(OBSERVATION_SIZE, dtype=np.float32)
    high[COST_SHARE] = largest_cost_share
    return gymnasium.spaces.Box(np.zeros_like(high), high, dtype=np.float32)


def build_observations(
    accuracies: np.ndarray,
    num_samples: np.ndarray,
    costs_j: np.ndarray,
    budget_j: float,
    participated: np.ndarray,
    *,
    mean_accuracy: float,
    most_samples: int,
) -> np.ndarray:
    """Observations of clients after a round.

    Args:
        accuracies: ``[N]`` accuracy of the global model on each client's test set.
        num_samples: ``[N]`` training samples.
        costs_j: ``[N]`` joules of one round.
        budget_j: Joules the next round may spend in all.
        participated: ``[N]`` whether each client trained in the last round.
        mean_accuracy: Mean accuracy over the live clients.
        most_samples: Training samples of the federation's largest client, live or not.

    Returns:
        ``float32[N, 5]``, columns as named by the constants of this module.
    """
    observations = np.empty((len(accuracies), OBSERVATION_SIZE), dtype=np.float32)
    observations[:, MEAN_ACCURACY] = mean_accuracy
    observations[:, DATA_SIZE] = num_samples / most_samples
    observations[:, OWN_ACCURACY] = accuracies
    observations[:, COST_SHARE] = cost_shares(costs_j, budget_j)
    observations[:, TRAINED_LAST_ROUND] = participated
    return observations


def cost_shares(costs_j: np.ndarray, budget_j: float) -> np.ndarray:
    """``cost / budget``, ``[N]``: 0 with an infinite budget, 1 with a budget of 0, of which no share can be taken."""
    if math.isinf(budget_j):
        return np.zeros(len(costs_j))
    if budget_j == 0.0:
        return np.ones(len(costs_j))
    return np.asarray(costs_j) / budget_j
