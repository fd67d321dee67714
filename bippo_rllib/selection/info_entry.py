"""Reads entries of infos, for rules and set scores. NumPy only."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from bippo_rllib.as_numbers import as_vector
from bippo_rllib.setting_error import shown


def entry(client: str, info: Mapping[str, Any], key: str, needs: str) -> Any:
    """Returns the entry of one info under ``key``; if it is missing, raises a ValueError that includes ``needs``."""
    try:
        return info[key]
    except KeyError:
        raise ValueError(f"the info of {client!r} has no {key!r}, which {needs}") from None


def entries(clients: Sequence[str], infos: Sequence[Mapping[str, Any]], key: str, needs: str) -> list[Any]:
    """Returns what all infos have under ``key``; a ValueError that says ``needs`` for the first one that lacks it."""
    try:
        return [info[key] for info in infos]
    except KeyError:
        return [entry(client, info, key, needs) for client, info in zip(clients, infos, strict=True)]


def row_of_numbers(
    client: str, key: str, given: Any, size: int | None, kind: str = "finite numbers in a row", low: float = -np.inf
) -> np.ndarray:
    """Returns what an info has under ``key`` as ``float64[size]``, or of any length from 1 if ``size`` is None.

    Args:
        client: The client's name, for the error.
        key: The info's key.
        given: What the info has there.
        size: Length of those that the other clients have; None where there are none yet.
        kind: Description for the error.
        low: The least that a number may be.

    Raises:
        ValueError: If it is something else, is not finite or has another length.
    """
    row = as_vector(given)
    if row is None or not (np.isfinite(row) & (row >= low)).all():
        found = f"= {shown(given)}"
    elif size not in (None, row.size):
        found = f"of shape {row.shape}"
    else:
        return row
    expected = kind if size is None else f"{size} {kind}, as those of the others are"
    raise ValueError(f"{client!r} has {key} {found}; it must be {expected}")
