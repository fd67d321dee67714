"""A trained selector without RLlib or Ray: load a checkpoint, ask which clients to train."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import torch

from bippo_rllib.policies.actor_critic import ParameterLayout, actor_logits, log_prob_participate
from bippo_rllib.policies.agents import policy_of
from bippo_rllib.policies.saved_policies import read_policies
from bippo_rllib.selection.budget_sampler import BudgetSampler


class ClientSelector:
    """Selects clients with trained policies, for a federated-learning server of any kind.

    .. code-block:: python

        selector = ClientSelector.from_checkpoint("results/.../checkpoint_000000")
        chosen = selector.select(observations, costs, budget)

    Args:
        policies: Policy id -> state dict of that policy (``actor.0.weight``, ...), at least one.
        sampler: How to pick; ``greedy`` by default.
    """

    def __init__(self, policies: Mapping[str, Mapping[str, np.ndarray]], sampler: BudgetSampler | None = None) -> None:
        self._slots = {policy_id: slot for slot, policy_id in enumerate(policies)}
        hidden_size, obs_dim = next(iter(policies.values()))["actor.0.weight"].shape
        self._layout = ParameterLayout(obs_dim, hidden_size)
        self._flat = torch.stack([self._layout.row(policy) for policy in policies.values()])
        self._sampler = sampler or BudgetSampler("greedy")

    @classmethod
    def from_checkpoint(cls, path: str | Path, sampler: BudgetSampler | None = None) -> ClientSelector:
        """Reads the policies out of a checkpoint written by ``Bippo.save_to_path`` or Tune.

        Checkpoints are pickles: load only those you trust.

        Raises:
            ValueError: If there are no policies at ``path``.
        """
        saved = read_policies(path)
        if saved.shape.central:
            raise ValueError(
                f"a central network, not a policy per client, at {path}; give a checkpoint of bippo or ippo"
            )
        try:
            return cls(saved.state, sampler)
        except Exception as error:
            raise ValueError(f"{path} holds no policies: {type(error).__name__}: {error}") from error

    @property
    def policy_ids(self) -> list[str]:
        """Clients it has a policy for."""
        return list(self._slots)

    def suggestions(self, observations: Mapping[str, Sequence[float]]) -> dict[str, float]:
        """P(participate | s) of each client: observations ``[obs_dim]`` -> number in [0, 1].

        Raises:
            ValueError: For a client without a policy.
        """
        policy_ids = {client: policy_of(client) for client in observations}
        unknown = [client for client, policy_id in policy_ids.items() if policy_id not in self._slots]
        if unknown:
            raise ValueError(f"no policy for {unknown}; there are policies for {self.policy_ids}")
        if not observations:
            return {}
        slots = torch.tensor([self._slots[policy_id] for policy_id in policy_ids.values()])
        inputs = torch.tensor(np.stack([self._checked(client, o) for client, o in observations.items()]))
        with torch.no_grad():
            logits = actor_logits(self._layout.views(self._flat[slots]), inputs.unsqueeze(1))
        probabilities = log_prob_participate(logits).exp().squeeze(1).tolist()
        return dict(zip(observations, probabilities, strict=True))

    def _checked(self, client: str, observation: Sequence[float]) -> np.ndarray:
        array = np.asarray(observation, dtype=np.float32)
        if array.shape != (self._layout.obs_dim,):
            raise ValueError(f"{client} has an observation of shape {array.shape}; expected ({self._layout.obs_dim},)")
        return array

    def select(
        self, observations: Mapping[str, Sequence[float]], costs: Mapping[str, float], budget: float
    ) -> list[str]:
        """Clients to train in this round, best first; their summed cost fits the budget.

        Nothing is explored: with the default sampler the same inputs give the same clients.

        Args:
            observations: Per available client what its policy was trained on, see the environment's page.
            costs: What training each of them costs, in the unit of ``budget``.
            budget: What the round may spend.

        Raises:
            ValueError: For a client without a policy or cost, and for what ``BudgetSampler.select`` refuses.
        """
        clients = list(observations)
        missing = [client for client in clients if client not in costs]
        if missing:
            raise ValueError(f"no cost for {missing}; give one for every client in observations")
        suggestions = self.suggestions(observations)
        picked = self._sampler.select(
            [suggestions[client] for client in clients],
            [costs[client] for client in clients],
            budget,
            explore=False,
            names=clients,
        )
        return [clients[index] for index in picked]
