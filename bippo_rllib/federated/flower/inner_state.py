"""What the inner strategies remember from round to round, such as the moments of a server optimiser."""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from flwr.serverapp.strategy import Strategy

from bippo_rllib.federated.flower.inner_strategies import inner_strategies
from bippo_rllib.federated.flower.packed_values import UnknownValue, pack

logger = logging.getLogger(__name__)


class InnerState:
    """Finds what has changed of a strategy and those inside it since this was made; the rest are its settings.

    Args:
        strategy: The outermost of them.
    """

    def __init__(self, strategy: Strategy) -> None:
        self._strategies = inner_strategies(strategy)
        self._warned: set[str] = set()
        self._made = [{name: _bytes(value) for name, value in vars(one).items()} for one in self._strategies]

    def check(self) -> None:
        """Raises a ValueError where a strategy remembers what no file can be given."""
        for strategy in self._strategies:
            if getattr(strategy, "accountant", None) is not None:
                raise ValueError(
                    f"{type(strategy).__name__} has an accountant, whose privacy budget would start anew when the run "
                    "is loaded; save no runs with it, or count the budget yourself and leave the accountant out"
                )

    @property
    def names(self) -> list[str]:
        """Classes of the strategies, outermost first."""
        return [type(strategy).__name__ for strategy in self._strategies]

    def get(self) -> list[dict[str, Any]]:
        """Returns the changed attributes of each strategy; warns of attributes that cannot be saved."""
        states = []
        for strategy, made in zip(self._strategies, self._made, strict=True):
            now = {name: _bytes(value) for name, value in vars(strategy).items()}
            state = {
                name: getattr(strategy, name) for name, packed in now.items() if packed not in (None, made.get(name))
            }
            states.append(state)
            for name in (
                name for name, packed in now.items() if packed is None and _may_change(getattr(strategy, name))
            ):
                self._warn(f"{type(strategy).__name__}.{name}", getattr(strategy, name))
        return states

    def _warn(self, name: str, value: Any) -> None:
        if name not in self._warned:
            logger.warning("not saved: %s (%s); set it before the run is loaded", name, type(value).__name__)
            self._warned.add(name)

    def set(self, states: Sequence[Mapping[str, Any]]) -> None:
        """Sets the attributes that ``get`` returned."""
        for strategy, state in zip(self._strategies, states, strict=True):
            vars(strategy).update(state)


def _bytes(value: Any) -> bytes | None:
    """Returns the text by which a value is compared; None for what is not saved, such as functions and strategies."""
    arrays: dict[str, np.ndarray] = {}
    try:
        packed = json.dumps(pack(value, arrays))
    except UnknownValue:
        return None
    return packed.encode() + b"".join(str((a.dtype, a.shape)).encode() + a.tobytes() for a in arrays.values())


def _may_change(value: Any) -> bool:
    return not callable(value) and not isinstance(value, Strategy)
