"""Client policies as rows of one tensor, each in the slot it was given. Works without Ray."""

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

    A policy keeps the slot (the index of its row) it was given, and capacity doubles, so adding a policy costs O(1) on
    average and touches no other. ``begin`` sets it up; there is no constructor of its own, since RLlib's
    ``PolicyBank`` is one.

    Attributes:
        layout: What lies where in a row.
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

    def begin(self, layout: ParameterLayout, seed: int) -> None:
        """Starts without policies."""
        self.layout, self.seed = layout, seed
        self.flat = torch.zeros(0, layout.size)
        self.slots, self.ids, self.free, self.removed = {}, [], [], set()

    @property
    def capacity(self) -> int:
        """Rows in the stack, those of no policy included."""
        return self.flat.shape[0]

    def slots_of(self, policy_ids: Sequence[str]) -> np.ndarray:
        """``int64[P]`` slots of the named policies."""
        return np.array([self.slots[policy_id] for policy_id in policy_ids], dtype=np.int64)

    def add_policies(self, policy_ids: Sequence[str], rows: Tensor | None = None) -> None:
        """Adds policies, each in a row of its own; every other policy keeps its bits.

        Args:
            policy_ids: Their ids; those that are here already are skipped.
            rows: ``[len(policy_ids), size]`` parameters of policies that are all new; fresh ones by default.
        """
        new = [policy_id for policy_id in policy_ids if policy_id not in self.slots]
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

    def remove_policy(self, policy_id: str) -> None:
        """Forgets a policy. Its slot is reused only once it is in ``free``, see ``PolicyTrainer.remove_policy``."""
        del self.slots[policy_id]
        self.removed.add(policy_id)

    def logits(self, slots: np.ndarray, observations: np.ndarray) -> Tensor:
        """Returns action logits ``[P, 2]`` of the policies in ``slots`` (``int64[P]``).

        Args:
            slots: Where the policies lie.
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
        """Parameters in ``slots``; a view, not a copy, where these are consecutive."""
        if not len(slots):
            return self.flat[:0]
        first, last = int(slots[0]), int(slots[-1])
        if last - first + 1 == len(slots) and bool((np.diff(slots) == 1).all()):
            return self.flat[first : last + 1]
        return self.flat[torch.from_numpy(slots)]
