"""Packages of other projects with our names, such as ``envs``, that Python finds first."""

from __future__ import annotations

import importlib.util
from collections.abc import Sequence
from importlib.machinery import PathFinder
from pathlib import Path

OURS = ("bippo_rllib", "envs", "experiments")
#: Folders of installed packages.
INSTALLED = frozenset({"site-packages", "dist-packages"})


def what_is_in_the_way(path: Sequence[str] | None = None) -> str | None:
    """Returns one line about the first folder that is imported instead of a package of ours, or None.

    Args:
        path: Python's search path; None for the one of this process.
    """
    for name in OURS:
        spec = importlib.util.find_spec(name) if path is None else PathFinder.find_spec(name, path)
        found = [Path(folder).resolve() for folder in (spec and spec.submodule_search_locations) or ()]
        ours = Path(__file__).resolve().parents[1] / name
        if found and ours not in found:
            return (
                f"Python finds the folder {found[0]} before this project's package {name} ({ours}); run from another "
                "folder, or rename it"
            )
    return None
