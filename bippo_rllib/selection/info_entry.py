"""Reads entries of infos, for rules and set scores. Standard library only."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def entry(client: str, info: Mapping[str, Any], key: str, needs: str) -> Any:
    """Returns the entry of one info under ``key``; if it is missing, raises a ValueError that includes ``needs``."""
    try:
        return info[key]
    except KeyError:
        raise ValueError(f"the info of {client!r} has no {key!r}, which {needs}") from None
