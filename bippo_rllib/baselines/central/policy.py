"""The actor and critic of the central baselines: one network over the joint state of all live clients."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from ray.rllib.core.columns import Columns
from ray.rllib.core.rl_module.apis.value_function_api import ValueFunctionAPI
from ray.rllib.core.rl_module.torch import TorchRLModule
from torch import Tensor

from bippo_rllib.baselines.central.experience import joint_state
from bippo_rllib.policies.actor_critic import (
    ParameterLayout,
    actor_logits,
    check_outputs,
    critic_values,
    initial_parameters,
)
from bippo_rllib.policies.agents import CENTRAL
from bippo_rllib.policies.client_policy import flat_observation_size, two_layers
from bippo_rllib.selection.connector_columns import SUGGESTION


class CentralPolicy(TorchRLModule, ValueFunctionAPI):
    """Actor ``joint_dim -> hidden -> N`` with a softmax over the N live clients, critic ``joint_dim -> hidden -> 1``.

    A client's probability is its participation suggestion. Inputs and outputs are tied to the clients there are, so a
    client that joins or leaves needs another network: ``set_clients`` then initialises one (paper, section 5.5).

    ``model_config`` keys: ``hidden_size``, ``seed``, ``shared_observations`` (leading entries of an observation that
    are the same for all agents).

    Attributes:
        clients: Clients the network is for, in agent order; none before the first ``set_clients``.
        generation: Number of initialisations.
        layout: Layout of ``flat``.
        flat: ``[1, size]`` all parameters; those of ``actor`` and ``critic`` are views of it.
    """

    def setup(self) -> None:
        """Checks the spaces; ``set_clients`` makes the network."""
        self._obs_dim = flat_observation_size(self.observation_space, self.action_space)
        self._shared = self.model_config["shared_observations"]
        if self._shared > self._obs_dim:
            raise ValueError(f"shared_observations is {self._shared}, but an observation has {self._obs_dim} entries")
        self.generation = 0
        self._start_over(())

    def set_clients(self, clients: Sequence[str]) -> None:
        """Sets the live clients, in agent order; re-initialises the network if they changed."""
        if tuple(clients) != self.clients:
            self.generation += 1
            self._start_over(tuple(clients))

    def act(self, observations: np.ndarray) -> dict[str, np.ndarray]:
        """Runs one forward pass.

        Args:
            observations: ``float32[N, obs_dim]`` in agent order.

        Returns:
            ``action_dist_inputs``, ``actions``, ``action_logp`` and ``participation_suggestion``, ``[N]`` each; the
            suggestions sum to 1.

        Raises:
            ValueError: If the network has diverged.
        """
        with torch.no_grad():
            outputs = self._forward({Columns.OBS: torch.from_numpy(observations).unsqueeze(0)})
        check_outputs(outputs[Columns.ACTION_DIST_INPUTS], lambda _: "the central network")
        return {column: tensor[0].numpy() for column, tensor in outputs.items()}

    def compute_values(self, batch: Mapping[str, Any], embeddings: Any = None) -> Tensor:
        """Computes V of each joint state: observations ``[B, N, obs_dim]`` -> ``[B]``."""
        return critic_values(self._parameter_views(), self._joint(batch).unsqueeze(0))[0]

    def get_state(self, *args: Any, **kwargs: Any) -> dict[str, Any]:
        """Returns the network's clients, and its parameters as arrays."""
        views = self._parameter_views()
        parameters = {name: tensor[0].numpy().copy() for name, tensor in views.items()}
        return {"clients": list(self.clients), "generation": self.generation, "parameters": parameters}

    def set_state(self, state: Mapping[str, Any]) -> None:
        """Restores a state that ``get_state`` returned, of any clients.

        Raises:
            ValueError: If it is of another hidden size or observation length.
        """
        row = self.row_of(state)
        self._start_over(tuple(state["clients"]))
        self.flat[0] = row
        self.generation = state["generation"]

    def row_of(self, state: Mapping[str, Any]) -> Tensor:
        """Returns the parameters in ``state`` as a row ``[size]``; see ``set_state``."""
        return self._layout_for(state["clients"]).row(state["parameters"])

    def _forward(self, batch: Mapping[str, Any], **kwargs: Any) -> dict[str, Tensor]:
        logits = actor_logits(self._parameter_views(), self._joint(batch).unsqueeze(0))[0]
        log_probs = torch.log_softmax(logits, dim=-1)
        return {
            Columns.ACTION_DIST_INPUTS: logits,
            Columns.ACTIONS: torch.zeros(logits.shape, dtype=torch.int64),  # until the sampler has decided
            Columns.ACTION_LOGP: log_probs,
            SUGGESTION: log_probs.exp(),
        }

    def _joint(self, batch: Mapping[str, Any]) -> Tensor:
        return joint_state(batch[Columns.OBS], self._shared)

    def _parameter_views(self) -> dict[str, Tensor]:
        return self.layout.views(self.flat)

    def _layout_for(self, clients: Sequence[str]) -> ParameterLayout:
        joint_dim = self._shared + len(clients) * (self._obs_dim - self._shared)
        return ParameterLayout(joint_dim, self.model_config["hidden_size"], num_actions=len(clients))

    def _start_over(self, clients: tuple[str, ...]) -> None:
        self.clients, self.layout = clients, self._layout_for(clients)
        self.flat = torch.zeros(1, self.layout.size)
        if not clients:
            return
        self.flat[0] = initial_parameters(self.layout, self.model_config["seed"], f"{CENTRAL}#{self.generation}")
        self.actor = two_layers(self.layout.obs_dim, self.layout.hidden_size, len(clients))
        self.critic = two_layers(self.layout.obs_dim, self.layout.hidden_size, 1)
        for name, parameter in self.named_parameters():
            parameter.data = self._parameter_views()[name][0]
