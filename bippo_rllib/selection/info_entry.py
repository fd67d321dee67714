"""Reads entries of infos, for rules and set scores. Standard library only."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any


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
