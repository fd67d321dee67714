"""What one client's info holds, for rules and set scores. Standard library only."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def entry(client: str, info: Mapping[str, Any], key: str, needs: str) -> Any:
    """Returns what one info has under ``key``; a ValueError that says ``needs`` if it lacks it."""
    try:
        return info[key]
    except KeyError:
        raise ValueError(f"the info of {client!r} has no {key!r}, which {needs}") from None
