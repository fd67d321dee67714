"""The pure functions that a selector has in common with the environment, whichever package is called ``envs``."""

from __future__ import annotations

import importlib
import importlib.util
import sys
from functools import lru_cache
from pathlib import Path
from types import ModuleType

#: Modules of ``envs`` that need NumPy alone.
SHARED = ("rng", "rules.observation", "rules.reward", "rules.shapley", "rules.update_sketch")
_FOLDER = Path(__file__).resolve().parents[2] / "envs"


@lru_cache
def shared(name: str) -> ModuleType:
    """Imports one of the ``SHARED`` modules. Called inside functions only, so that importing a selector needs none.

    Other projects often have a package ``envs``, which then hides ours. It is not imported, since that would run its
    code: the module is loaded from its file instead.

    Args:
        name: The module, without ``envs.``.

    Raises:
        ImportError: If the module imports another one of ``envs``, which is hidden; in one line.
    """
    if _is_ours():
        return importlib.import_module(f"envs.{name}")
    spec = importlib.util.spec_from_file_location(
        f"{__name__}.{name.replace('.', '_')}", _FOLDER.joinpath(*name.split(".")).with_suffix(".py")
    )
    assert spec is not None and spec.loader is not None
    module = sys.modules[spec.name] = importlib.util.module_from_spec(spec)  # where its dataclasses look for it
    try:
        spec.loader.exec_module(module)
    except ImportError as error:
        del sys.modules[spec.name]
        raise ImportError(
            f"another package envs hides the one of bippo-rllib, whose envs.{name} is needed ({error}); rename it"
        ) from error
    return module


def _is_ours() -> bool:
    try:
        found = importlib.util.find_spec("envs")
    except ValueError:  # a module that was put into sys.modules by hand
        return False
    return found is not None and found.origin is not None and Path(found.origin).resolve().parent == _FOLDER
