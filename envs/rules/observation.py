"""What agents observe, as a pure function of what is known of the clients after a round. NumPy only.

The environment and ``bippo_rllib.federated`` both use it.
"""

from __future__ import annotations

import math

import numpy as np

#: Columns of an observation.
MEAN_ACCURACY, DATA_SIZE, OWN_ACCURACY, COST_SHARE, TRAINED_LAST_ROUND = range(5)
OBSERVATION_SIZE = 5


def observation_rows(
    accuracies: np.ndarray,
    num_samples: np.ndarray,
    costs_j: np.ndarray,
    trained: np.ndarray,
    *,
    mean_accuracy: float,
    most_samples: float,
    budget_j: float,
    high: np.ndarray,
) -> np.ndarray:
    """Computes the observations of N clients, with columns as the constants of this module name them.

    Args:
        accuracies: ``float64[N]`` accuracies of the global model, in [0, 1].
        num_samples: ``[N]`` training samples.
        costs_j: ``float64[N]`` joules that training costs in the next round.
        trained: ``bool[N]`` whether a client trained in the last round.
        mean_accuracy: Mean accuracy over the live clients.
        most_samples: Training samples of the largest client.
        budget_j: Joules that the next round may spend.
        high: ``float32[5]`` upper bounds, at which the observations are clipped.

    Returns:
        ``float32[N, 5]``.
    """
    rows = np.empty((len(accuracies), OBSERVATION_SIZE), dtype=np.float32)
    rows[:, MEAN_ACCURACY] = mean_accuracy
    rows[:, DATA_SIZE] = num_samples / most_samples
    rows[:, OWN_ACCURACY] = accuracies
    with np.errstate(over="ignore"):  # a share that no float holds is clipped as well
        rows[:, COST_SHARE] = cost_shares(costs_j, budget_j)
    rows[:, TRAINED_LAST_ROUND] = trained
    return np.minimum(rows, high, out=rows)


def cost_shares(costs_j: np.ndarray, budget_j: float) -> np.ndarray:
    """Computes ``cost / budget``, ``[N]``: 0 with an infinite budget, 1 with a budget of 0, which has no shares."""
    if math.isinf(budget_j):
        return np.zeros(len(costs_j))
    if budget_j == 0.0:
        return np.ones(len(costs_j))
    return np.asarray(costs_j) / budget_j
