"""RLlib's view of the stacked policies: one RLModule per client, one batched forward pass for all."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import gymnasium as gym
import torch
from ray.rllib.core.columns import Columns
from ray.rllib.core.rl_module.apis.value_function_api import ValueFunctionAPI
from ray.rllib.core.rl_module.multi_rl_module import MultiRLModule
from ray.rllib.core.rl_module.rl_module import RLModule
from ray.rllib.core.rl_module.torch import TorchRLModule
from torch import Tensor, nn

from bippo_rllib.columns import SUGGESTION
from bippo_rllib.stacked_actor_critic import (
    PARTICIPATE,
    Stacked,
    actor_logits,
    gather_rows,
    initial_parameters,
    log_prob_participate,
    parameter_shapes,
)


class ClientPolicy(TorchRLModule, ValueFunctionAPI):
    """Actor ``obs -> hidden -> 2`` and critic ``obs -> hidden -> 1`` of one client, tanh in between.

    Works alone too: ``RLModule.from_checkpoint(path).forward_inference({"obs": obs})``.

    ``model_config`` keys: ``hidden_size``, ``seed`` and ``policy_id`` (initial weights are keyed by the last two).

    Raises:
        ValueError: If observations are not a flat Box or actions not ``Discrete(2)``.
    """

    def setup(self) -> None:
        obs_dim = _obs_dim(self.observation_space, self.action_space, self.model_config.get("policy_id", "policy"))
        hidden_size = self.model_config["hidden_size"]
        # skip_init: nn.Linear would draw from torch's global generator before our own values replace its.
        linear = torch.nn.utils.skip_init
        self.actor = nn.Sequential(
            linear(nn.Linear, obs_dim, hidden_size), nn.Tanh(), linear(nn.Linear, hidden_size, 2)
        )
        self.critic = nn.Sequential(
            linear(nn.Linear, obs_dim, hidden_size), nn.Tanh(), linear(nn.Linear, hidden_size, 1)
        )
        self.load_state_dict(
            initial_parameters(self.model_config["seed"], self.model_config["policy_id"], obs_dim, hidden_size)
        )

    def _forward(self, batch: Mapping[str, Any], **kwargs: Any) -> dict[str, Tensor]:
        return _outputs(self.actor(batch[Columns.OBS]))

    def compute_values(self, batch: Mapping[str, Any], embeddings: Any = None) -> Tensor:
        """V of each observation: ``[B, obs_dim]`` -> ``[B]``."""
        return self.critic(batch[Columns.OBS]).squeeze(-1)


class PolicyBank(MultiRLModule):
    """All client policies as one stack of tensors ``[capacity, ...]``.

    Every parameter of every ``ClientPolicy`` is a view of its row, so state dicts, checkpoints and
    ``bank["client_003"]`` stay what RLlib expects, while acting and learning work on whole rows at once. Rows are
    never renumbered; capacity doubles, so adding a policy costs O(1) on average and touches no other policy.
    """

    def setup(self) -> None:
        super().setup()
        self.rows: dict[str, int] = {}
        self.stacked: Stacked = {}
        self.hidden_size = 0
        self.obs_dim = 0
        for policy_id, policy in self._rl_modules.items():
            self._append(policy_id, policy)

    @property
    def capacity(self) -> int:
        """Rows in the stack, those of no policy included."""
        return next(iter(self.stacked.values())).shape[0] if self.stacked else 0

    def add_module(self, module_id: str, module: RLModule, *, override: bool = False) -> None:
        """Adds a policy in a row of its own; every other policy keeps its bits."""
        super().add_module(module_id, module, override=override)
        self.rows.pop(module_id, None)
        self._append(module_id, module)

    def remove_module(self, module_id: str, *, raise_err_if_not_found: bool = True) -> None:
        """Forgets a policy; its row is not reused."""
        super().remove_module(module_id, raise_err_if_not_found=raise_err_if_not_found)
        self.rows.pop(module_id, None)

    def row_index(self, policy_ids: list[str]) -> Tensor:
        """``int64[P]`` rows of the named policies."""
        return torch.tensor([self.rows[policy_id] for policy_id in policy_ids], dtype=torch.int64)

    @torch.no_grad()
    def _forward(self, batch: Mapping[str, Any], **kwargs: Any) -> dict[str, dict[str, Any]]:
        policy_ids = [policy_id for policy_id in batch if policy_id in self.rows]
        if not policy_ids:
            return {}
        for policy_id in policy_ids:
            if len(batch[policy_id][Columns.OBS]) != 1:
                raise ValueError(
                    f"{len(batch[policy_id][Columns.OBS])} agents act with policy {policy_id!r} in one step; BIPPO's "
                    "policies are independent: map one live agent to each policy in .multi_agent(policy_mapping_fn=...)"
                )
        observations = torch.stack([batch[policy_id][Columns.OBS] for policy_id in policy_ids])
        outputs = _outputs(actor_logits(gather_rows(self.stacked, self.row_index(policy_ids)), observations))
        arrays = {column: tensor.numpy() for column, tensor in outputs.items()}
        return {
            policy_id: {column: array[i] for column, array in arrays.items()} for i, policy_id in enumerate(policy_ids)
        }

    def _forward_inference(self, batch: Mapping[str, Any], **kwargs: Any) -> dict[str, dict[str, Any]]:
        return self._forward(batch)

    def _forward_exploration(self, batch: Mapping[str, Any], **kwargs: Any) -> dict[str, dict[str, Any]]:
        return self._forward(batch)

    def _append(self, policy_id: str, policy: RLModule) -> None:
        if not isinstance(policy, ClientPolicy):
            raise ValueError(f"policy {policy_id!r} is a {type(policy).__name__}; the bank stacks ClientPolicy only")
        hidden_size, obs_dim = policy.get_parameter("actor.0.weight").shape
        if not self.stacked:
            self.obs_dim, self.hidden_size = obs_dim, hidden_size
            self._next_row = 0
        if (obs_dim, hidden_size) != (self.obs_dim, self.hidden_size):
            raise ValueError(
                f"policy {policy_id!r} has {obs_dim} inputs and {hidden_size} hidden units, the others {self.obs_dim} "
                f"and {self.hidden_size}; give all agents observations of one shape (pad the shorter ones)"
            )
        if self._next_row >= self.capacity:
            self._grow(max(2 * self.capacity, len(self._rl_modules)))
        self.rows[policy_id] = self._next_row
        self._next_row += 1
        for name, parameter in policy.named_parameters():
            self.stacked[name][self.rows[policy_id]] = parameter.data
        self._make_views(policy_id)

    def _grow(self, capacity: int) -> None:
        for name, shape in parameter_shapes(self.obs_dim, self.hidden_size).items():
            grown = torch.zeros((capacity, *shape))
            if name in self.stacked:
                grown[: self.stacked[name].shape[0]] = self.stacked[name]
            self.stacked[name] = grown
        for policy_id in self.rows:
            self._make_views(policy_id)

    def _make_views(self, policy_id: str) -> None:
        for name, parameter in self._rl_modules[policy_id].named_parameters():
            parameter.data = self.stacked[name][self.rows[policy_id]]


def _outputs(logits: Tensor) -> dict[str, Tensor]:
    """Module outputs of ``[..., 2]`` logits. ACTIONS are placeholders until the sampler has decided, ACTION_LOGP is the
    policy's own log pi(participate | s) whatever makes the pick.
    """
    log_probs = log_prob_participate(logits)
    return {
        Columns.ACTION_DIST_INPUTS: logits,
        Columns.ACTIONS: torch.zeros(logits.shape[:-1], dtype=torch.int64),
        Columns.ACTION_LOGP: log_probs,
        SUGGESTION: log_probs.exp(),
    }


def _obs_dim(observation_space: gym.Space, action_space: gym.Space, policy_id: str) -> int:
    if not isinstance(action_space, gym.spaces.Discrete) or action_space.n != 2 or action_space.start != 0:
        raise ValueError(
            f"{policy_id}: the action space is {action_space}; BIPPO decides whether to act, so it must be Discrete(2) "
            f"with {PARTICIPATE} = act"
        )
    if not isinstance(observation_space, gym.spaces.Box) or len(observation_space.shape) != 1:
        raise ValueError(
            f"{policy_id}: the observation space is {observation_space}; it must be a flat Box of shape (obs_dim,)"
        )
    return observation_space.shape[0]
