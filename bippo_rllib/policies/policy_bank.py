"""The stacked policies as a ``MultiRLModule``: one RLModule per client, one batched forward pass for all."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, MutableMapping, Sequence
from typing import Any

import numpy as np
import torch
from gymnasium import Space
from ray.rllib.core.columns import Columns
from ray.rllib.core.rl_module.multi_rl_module import MultiRLModule, MultiRLModuleSpec
from ray.rllib.core.rl_module.rl_module import RLModule
from torch import Tensor

from bippo_rllib.policies.actor_critic import ParameterLayout
from bippo_rllib.policies.agents import common_spaces
from bippo_rllib.policies.client_policy import ClientPolicy, flat_observation_size, policy_outputs
from bippo_rllib.policies.policy_stack import PolicyStack
from bippo_rllib.rllib_compat import is_wanted, use_modules


class PolicyBank(PolicyStack, MultiRLModule):
    """A ``PolicyStack`` as an RLModule.

    ``bank["client_003"]`` is a ``ClientPolicy`` whose parameters are views of its row, made on first access. State
    dicts are RLlib's, ``{policy id: {name: array}}``. A checkpoint of the bank is one file, whatever the number of
    policies.

    ``model_config`` keys: ``policy_ids``, ``hidden_size``, ``seed``.
    """

    def setup(self) -> None:
        """Builds the policies named in ``model_config``."""
        self.framework = "torch"
        obs_dim = flat_observation_size(self.observation_space, self.action_space)
        self._views = _PolicyViews(self)
        use_modules(self, self._views)
        self.initialize(ParameterLayout(obs_dim, self.model_config["hidden_size"]), self.model_config["seed"])
        self.add_policies(self.model_config["policy_ids"])

    def add_policies(self, policy_ids: Sequence[str], rows: Tensor | None = None) -> None:
        """See ``PolicyStack.add_policies``."""
        before = self.flat
        super().add_policies(policy_ids, rows)
        if self.flat is not before:
            self._views.refresh()

    def remove_policy(self, policy_id: str) -> int:
        """See ``PolicyStack.remove_policy``."""
        slot = self.slots[policy_id]
        del self._views[policy_id]
        return slot

    def act(self, slots: np.ndarray, observations: np.ndarray) -> dict[str, np.ndarray]:
        """Runs one forward pass of P policies.

        Args:
            slots: ``int64[P]`` slots of the policies.
            observations: ``float32[P, obs_dim]``, one each.

        Returns:
            ``action_dist_inputs`` ``[P, 2]``, ``actions``, ``action_logp`` and ``participation_suggestion`` ``[P]``.
        """
        outputs = policy_outputs(self.logits(slots, observations))
        return {column: tensor.numpy() for column, tensor in outputs.items()}

    def get_state(self, components: Any = None, *, not_components: Any = None, **kwargs: Any) -> dict[str, Any]:
        """Returns ``{policy id: {name: array}}`` of the requested policies, all by default."""
        ids = [p for p in self.slots if is_wanted(self, p, components, not_components)]
        arrays = {name: tensor.numpy() for name, tensor in self.layout.views(self.flat).items()}
        return {p: {name: array[self.slots[p]].copy() for name, array in arrays.items()} for p in ids}

    def set_state(self, state: Mapping[str, Mapping[str, Any]]) -> None:
        """Restores a state that ``get_state`` returned, in place; unknown policies are added.

        Raises:
            ValueError: If a policy has other shapes than the bank.
        """
        if state:
            values = torch.stack([self.layout.row(policy) for policy in state.values()])
            self.add_policies(list(state))
            self.flat[torch.from_numpy(self.slots_of(list(state)))] = values

    def get_checkpointable_components(self) -> list:
        """Returns no components: all policies are in the bank's state, one file."""
        return []

    def get_ctor_args_and_kwargs(self) -> tuple[tuple, dict[str, Any]]:
        """Returns the arguments with which ``from_checkpoint`` builds the bank, the current policies among them."""
        return (), {
            "observation_space": self.observation_space,
            "action_space": self.action_space,
            "inference_only": False,
            "model_config": {**self.model_config, "policy_ids": list(self.slots)},
        }

    def _forward(self, batch: Mapping[str, Any], **kwargs: Any) -> dict[str, dict[str, Any]]:
        policy_ids = list(batch)
        for policy_id in policy_ids:
            if policy_id not in self.slots:
                raise ValueError(f"there is no policy {policy_id!r} to act with; see add_policies")
            if len(batch[policy_id][Columns.OBS]) != 1:
                raise ValueError(shared_policy_message(policy_id, len(batch[policy_id][Columns.OBS])))
        if not policy_ids:
            return {}
        observations = torch.cat([batch[policy_id][Columns.OBS] for policy_id in policy_ids])
        outputs = self.act(self.slots_of(policy_ids), observations.numpy())
        return {
            policy_id: {column: array[i : i + 1] for column, array in outputs.items()}
            for i, policy_id in enumerate(policy_ids)
        }

    def _forward_inference(self, batch: Mapping[str, Any], **kwargs: Any) -> dict[str, dict[str, Any]]:
        return self._forward(batch)

    def _forward_exploration(self, batch: Mapping[str, Any], **kwargs: Any) -> dict[str, dict[str, Any]]:
        return self._forward(batch)


class _PolicyViews(MutableMapping[str, ClientPolicy]):
    """The bank's policies as RLModules, each made on first access; parameters are views of the bank's rows."""

    def __init__(self, bank: PolicyBank) -> None:
        self._bank = bank
        self._made: dict[str, ClientPolicy] = {}

    def __getitem__(self, policy_id: str) -> ClientPolicy:
        if policy_id not in self._made:
            bank = self._bank
            config = {"hidden_size": bank.layout.hidden_size, "seed": bank.seed, "policy_id": policy_id}
            self._made[policy_id] = ClientPolicy(
                observation_space=bank.observation_space, action_space=bank.action_space, model_config=config
            )
            self._view(self._made[policy_id], bank.slots[policy_id])
        return self._made[policy_id]

    def __setitem__(self, policy_id: str, policy: RLModule) -> None:
        self._bank.set_state({policy_id: policy.get_state()})

    def __delitem__(self, policy_id: str) -> None:
        PolicyStack.remove_policy(self._bank, policy_id)
        self._made.pop(policy_id, None)

    def __contains__(self, policy_id: object) -> bool:
        return policy_id in self._bank.slots

    def __iter__(self) -> Iterator[str]:
        return iter(self._bank.slots)

    def __len__(self) -> int:
        return len(self._bank.slots)

    def refresh(self) -> None:
        """Makes all parameters views of the bank's tensors again, after these were replaced."""
        for policy_id, policy in self._made.items():
            self._view(policy, self._bank.slots[policy_id])

    def _view(self, policy: ClientPolicy, slot: int) -> None:
        views = self._bank.layout.views(self._bank.flat[slot : slot + 1])
        for name, parameter in policy.named_parameters():
            parameter.data = views[name][0]


def bank_spec(spaces: Mapping[str, tuple[Space, Space]], *, hidden_size: int, seed: int) -> MultiRLModuleSpec:
    """Returns the specification of a bank with one policy per entry of ``spaces``."""
    observation_space, action_space = common_spaces(spaces)
    return MultiRLModuleSpec(
        multi_rl_module_class=PolicyBank,
        observation_space=observation_space,
        action_space=action_space,
        inference_only=False,
        model_config={"policy_ids": list(spaces), "hidden_size": hidden_size, "seed": seed},
        rl_module_specs={},
    )


def shared_policy_message(policy_id: str, num_agents: int) -> str:
    """Returns the message for several live agents that share a policy."""
    return (
        f"{num_agents} agents act with policy {policy_id!r} in one step; BIPPO's policies are independent: map one "
        "live agent to each policy in .multi_agent(policy_mapping_fn=...)"
    )
