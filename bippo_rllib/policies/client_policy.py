"""The actor and critic of one client as an RLModule."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import gymnasium as gym
import torch
from ray.rllib.core.columns import Columns
from ray.rllib.core.rl_module.apis.value_function_api import ValueFunctionAPI
from ray.rllib.core.rl_module.torch import TorchRLModule
from torch import Tensor, nn

from bippo_rllib.policies.actor_critic import PARTICIPATE, ParameterLayout, initial_parameters, log_prob_participate
from bippo_rllib.selection.connector_columns import SUGGESTION


class ClientPolicy(TorchRLModule, ValueFunctionAPI):
    """Actor ``obs -> hidden -> 2`` and critic ``obs -> hidden -> 1`` of one client, tanh in between.

    Also works alone: ``policy.forward_inference({"obs": obs})["participation_suggestion"]``.

    ``model_config`` keys: ``hidden_size``, ``seed`` and ``policy_id`` (initial weights are keyed by the last two).
    """

    def setup(self) -> None:
        """Builds actor and critic with their initial weights."""
        obs_dim = flat_observation_size(self.observation_space, self.action_space)
        hidden_size = self.model_config["hidden_size"]
        self.actor = two_layers(obs_dim, hidden_size, 2)
        self.critic = two_layers(obs_dim, hidden_size, 1)
        layout = ParameterLayout(obs_dim, hidden_size)
        row = initial_parameters(layout, self.model_config["seed"], self.model_config["policy_id"])
        self.load_state_dict({name: tensor[0] for name, tensor in layout.views(row.unsqueeze(0)).items()})

    def _forward(self, batch: Mapping[str, Any], **kwargs: Any) -> dict[str, Tensor]:
        return policy_outputs(self.actor(batch[Columns.OBS]))

    def compute_values(self, batch: Mapping[str, Any], embeddings: Any = None) -> Tensor:
        """Computes V of each observation: ``[B, obs_dim]`` -> ``[B]``."""
        return self.critic(batch[Columns.OBS]).squeeze(-1)


def policy_outputs(logits: Tensor) -> dict[str, Tensor]:
    """Computes the module outputs from ``[..., 2]`` logits.

    ACTIONS are placeholders, which the sampler replaces; ACTION_LOGP is the policy's log pi(participate | s), whichever
    connector decides.
    """
    log_probs = log_prob_participate(logits)
    return {
        Columns.ACTION_DIST_INPUTS: logits,
        Columns.ACTIONS: torch.zeros(logits.shape[:-1], dtype=torch.int64),
        Columns.ACTION_LOGP: log_probs,
        SUGGESTION: log_probs.exp(),
    }


def flat_observation_size(observation_space: gym.Space, action_space: gym.Space) -> int:
    """Returns the length of an observation.

    Raises:
        ValueError: If observations are not a flat Box or actions not ``Discrete(2)``.
    """
    if not isinstance(action_space, gym.spaces.Discrete) or action_space.n != 2 or action_space.start != 0:
        raise ValueError(
            f"the action space is {action_space}; BIPPO decides whether to act, so it must be Discrete(2) with "
            f"{PARTICIPATE} = act"
        )
    if not isinstance(observation_space, gym.spaces.Box) or len(observation_space.shape) != 1:
        raise ValueError(f"the observation space is {observation_space}; it must be a flat Box of shape (obs_dim,)")
    return observation_space.shape[0]


def two_layers(inputs: int, hidden: int, outputs: int) -> nn.Sequential:
    """Makes a network ``inputs -> hidden -> outputs`` with tanh in between and uninitialised parameters."""
    # skip_init: nn.Linear would draw from torch's global generator before its values are replaced.
    linear = torch.nn.utils.skip_init
    return nn.Sequential(linear(nn.Linear, inputs, hidden), nn.Tanh(), linear(nn.Linear, hidden, outputs))
