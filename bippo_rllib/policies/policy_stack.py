"""Client policies as rows of one tensor, each in a fixed slot. Works without Ray."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from bippo_rllib.policies.actor_critic import (
    ParameterLayout,
    actor_logits,
    check_outputs,
    grow_rows,
    initial_parameters,
)


class PolicyStack:
    """All client policies as one tensor ``[capacity, size]``, a row each.

    A policy keeps its slot, the index of its row, and capacity doubles, so that adding a policy takes O(1) on average
    and changes no other. ``initialize`` replaces a constructor, since ``PolicyBank`` is also a module of RLlib's.

    Attributes:
        layout: Layout of a row.
        flat: ``[capacity, size]`` parameters.
        slots: Policy id -> slot.
        ids: Policy id by slot; a removed policy keeps its entry until another one takes the slot.
        free: Slots of removed policies that new ones may take.
        removed: Ids of the policies that were removed, and not added again.
        seed: Initial weights are keyed by it and the policy's id.
    """

    layout: ParameterLayout
    flat: Tensor
    slots: dict[str, int]
    ids: list[str]
    free: list[int]
    removed: set[str]
    seed: int

    def initialize(self, layout: ParameterLayout, seed: int) -> None:
        """Initializes the stack without policies."""
        self.layout, self.seed = layout, seed
        self.flat = torch.zeros(0, layout.size)
        self.slots, self.ids, self.free, self.removed = {}, [], [], set()

    @property
    def capacity(self) -> int:
        """Number of rows, including unused ones."""
        return self.flat.shape[0]

    def slots_of(self, policy_ids: Sequence[str]) -> np.ndarray:
        """Returns the slots of the named policies, ``int64[P]``."""
        return np.array([self.slots[policy_id] for policy_id in policy_ids], dtype=np.int64)

    def add_policies(self, policy_ids: Sequence[str], rows: Tensor | None = None) -> None:
        """Adds policies, a row each; every other policy keeps its bits.

        Args:
            policy_ids: Ids of the policies; known ones are skipped.
            rows: ``[len(policy_ids), size]`` parameters, if all policies are new; initial ones by default.
        """
        new = [policy_id for policy_id in dict.fromkeys(policy_ids) if policy_id not in self.slots]
        self.ids += [""] * (len(new) - len(self.free))
        if len(self.ids) > self.capacity:
            self.flat = grow_rows(self.flat, max(2 * self.capacity, len(self.ids)))
        slots = [*self.free, *range(len(self.ids) - len(new) + len(self.free), len(self.ids))][: len(new)]
        self.free = self.free[len(new) :]
        for slot, policy_id in zip(slots, new, strict=True):
            self.slots[policy_id], self.ids[slot] = slot, policy_id
            if rows is None:
                self.flat[slot] = initial_parameters(self.layout, self.seed, policy_id)
        if rows is not None:
            self.flat[slots] = rows
        self.removed.difference_update(new)

    def remove_policy(self, policy_id: str) -> int:
        """Forgets a policy and returns its slot, which the caller puts into ``free`` once nobody acts with it."""
        self.removed.add(policy_id)
        return self.slots.pop(policy_id)

    def logits(self, slots: np.ndarray, observations: np.ndarray) -> Tensor:
        """Returns action logits ``[P, 2]`` of the policies in ``slots`` (``int64[P]``).

        Args:
            slots: Slots of the policies.
            observations: ``float32[P, obs_dim]``, one each.

        Raises:
            ValueError: If a policy has diverged.
        """
        with torch.no_grad():
            parameters = self.layout.views(self._pick(slots))
            logits = actor_logits(parameters, torch.from_numpy(observations).unsqueeze(1)).squeeze(1)
        check_outputs(logits, lambda i: f"the policy of {self.ids[slots[i]]!r}")
        return logits

    def _pick(self, slots: np.ndarray) -> Tensor:
        """Returns the parameters in ``slots``; a view, not a copy, if these are consecutive."""
        if not len(slots):
            return self.flat[:0]
        first, last = int(slots[0]), int(slots[-1])
        if last - first + 1 == len(slots) and bool((np.diff(slots) == 1).all()):
            return self.flat[first : last + 1]
        return self.flat[torch.from_numpy(slots)]
