"""A Gaussian process over clients' changes of loss, with a learned place for each client. NumPy only."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

DIMENSION = 10  #: numbers of a client's place
NOISE = 0.01  #: standard deviation, in the unit of the losses
LEARNING_RATE = 0.01  #: of a fit, by Adam
STEPS = 100  #: of a fit
BETAS = (0.9, 0.999)  #: Adam's decay of the first and second moment
EPSILON = 1e-8  #: what Adam adds to the root of the second moment


class LossProcess:
    """Changes of loss, jointly normal with mean 0 and the covariance ``X X' + NOISE**2 I``; a row of X is a place.

    Args:
        seed: Of the places that clients have before a fit.
    """

    def __init__(self, seed: int | Sequence[int] | None = None) -> None:
        self._rng = np.random.default_rng(seed)
        self._places: dict[str, np.ndarray] = {}

    def covariance(self, clients: Sequence[str]) -> np.ndarray:
        """Returns ``float64[N, N]``; a client that was not seen before gets a random place."""
        places = self._stacked(clients)
        return places @ places.T + NOISE**2 * np.eye(len(clients))

    def fit(self, records: Sequence[Mapping[str, float]]) -> None:
        """Moves the places towards a higher likelihood of the records, by Adam.

        Args:
            records: Of each round the change of loss by client.
        """
        clients = sorted({client for record in records for client in record})
        places = self._stacked(clients)
        index = {client: i for i, client in enumerate(clients)}
        rounds = [
            (np.array([index[client] for client in record]), np.array(list(record.values())))
            for record in records
            if record
        ]
        first, second = np.zeros_like(places), np.zeros_like(places)
        for step in range(1, STEPS + 1):
            gradient = np.zeros_like(places)
            for rows, changes in rounds:
                gradient[rows] += likelihood_gradient(places[rows], changes)
            first = BETAS[0] * first + (1 - BETAS[0]) * gradient
            second = BETAS[1] * second + (1 - BETAS[1]) * gradient**2
            unbiased = first / (1 - BETAS[0] ** step), second / (1 - BETAS[1] ** step)
            places = places + LEARNING_RATE * unbiased[0] / (np.sqrt(unbiased[1]) + EPSILON)
        self._places.update(zip(clients, places, strict=True))

    def get_state(self) -> dict[str, Any]:
        """Returns all places, and the generator's state."""
        places = {client: place.copy() for client, place in self._places.items()}
        return {"places": places, "rng": self._rng.bit_generator.state}

    def set_state(self, state: Mapping[str, Any]) -> None:
        """Restores a ``state`` that ``get_state`` returned."""
        self._places = {client: np.array(place) for client, place in state["places"].items()}
        self._rng.bit_generator.state = state["rng"]

    def _stacked(self, clients: Sequence[str]) -> np.ndarray:
        for client in clients:
            if client not in self._places:
                self._places[client] = self._rng.normal(size=DIMENSION) / np.sqrt(DIMENSION)
        return np.array([self._places[client] for client in clients]).reshape(len(clients), DIMENSION)


def likelihood_gradient(places: np.ndarray, changes: np.ndarray) -> np.ndarray:
    """Returns the gradient of the log-likelihood of ``float64[N]`` changes by ``float64[N, D]`` places.

    With ``K = X X' + NOISE**2 I`` and ``a = K^-1 y`` it is ``(a a' - K^-1) X``.
    """
    inverse = np.linalg.inv(places @ places.T + NOISE**2 * np.eye(len(places)))
    solved = inverse @ changes
    return np.outer(solved, solved @ places) - inverse @ places
