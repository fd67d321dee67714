"""What a round was worth, by the formulas of the environment."""

from __future__ import annotations

import importlib.util
from types import ModuleType


def formulas() -> ModuleType:
    """Imports ``envs.rules.reward``, in which environment and selector have their rewards in common.

    It is imported here and not at the top, since only who reports accuracies or effects needs it, and other projects
    often have an ``envs`` of their own.

    Raises:
        ImportError: If another package of that name is found first; in one line.
    """
    try:
        from envs.rules import reward
    except ImportError as error:
        found = importlib.util.find_spec("envs")
        raise ImportError(
            f"{found.origin if found else 'another package envs'} hides the package envs of bippo-rllib, which makes "
            f"rewards of accuracies and effects ({error}); rename it, or report rewards"
        ) from error
    return reward
