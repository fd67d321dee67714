"""Custom modules that a study runs, with the modules beside them that they import: hashed, never imported."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path
from typing import TYPE_CHECKING

from envs.imports import OWN_CODE_FIELDS, is_import
from experiments.results.files import sha256
from experiments.shadowed_packages import INSTALLED, OURS
from experiments.study.settings import ENV_PREFIX

if TYPE_CHECKING:
    from experiments.study.study import Study


def custom_modules(study: Study) -> dict[str, str]:
    """Returns the SHA-256 of each custom module that the study runs, and of the modules beside them that they import.

    Nothing is imported. A module that is not found is left out; importing it raises an error.
    """
    fields = [f"{ENV_PREFIX}{name}" for name in OWN_CODE_FIELDS]
    settings = [{**study.settings, **draw}.get(field) for draw in study.draws for field in fields]
    code = [text for text in (*study.methods, *study.callbacks, *settings) if text is not None and is_import(text)]
    named = [text.partition(":")[0] for text in code]
    files: dict[str, Path] = {}
    for module in named:
        _collect(module, files)
    return {name: sha256(path) for name, path in sorted(files.items())}


def _collect(module: str, files: dict[str, Path]) -> None:
    """Adds a module, its packages, and all modules of the same folder or package that they import."""
    waiting = [module]
    root = _root(module)
    while waiting and root is not None:
        for name, path in _located(waiting.pop(), root):
            if name not in files:
                files[name] = path
                waiting += _imported(name, path)


def _root(module: str) -> Path | None:
    """Returns the folder whose code counts as custom: the module's; only its package if it is installed."""
    spec = PathFinder.find_spec(module.partition(".")[0])
    path = None if spec is None else _file_of(spec)
    if path is None:
        return None
    folder = path.parent
    is_package = spec is not None and spec.submodule_search_locations is not None
    if is_package and not {*folder.parts} & {*INSTALLED}:
        return folder.parent
    return folder


def _located(module: str, root: Path) -> Iterator[tuple[str, Path]]:
    """Yields the packages of a module and the module itself, with their files, as far as they are below ``root``."""
    parts, where = module.split("."), None
    for length in range(1, len(parts) + 1):
        name = ".".join(parts[:length])
        spec = PathFinder.find_spec(name, where)
        if spec is None or parts[0] in OURS:
            return
        path = _file_of(spec)
        if path is not None:
            if not path.is_relative_to(root) or {*path.relative_to(root).parts} & {*INSTALLED}:
                return
            yield name, path
        where = spec.submodule_search_locations
        if where is None:
            return


def _file_of(spec: ModuleSpec) -> Path | None:
    """Returns the file of a module; None for a folder without ``__init__.py``."""
    return Path(spec.origin).resolve() if spec.has_location and spec.origin else None


def _imported(name: str, path: Path) -> list[str]:
    """Returns the names that the source of a module imports anywhere, which may be modules or names in them."""
    if path.suffix != ".py":
        return []
    try:
        tree = ast.parse(path.read_bytes())
    except (OSError, SyntaxError, ValueError, RecursionError):
        return []  # importing it raises an error
    package = name if path.stem == "__init__" else name.rpartition(".")[0]
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = package.split(".")[: len(package.split(".")) - node.level + 1] if node.level else []
            module = ".".join([*base, *([node.module] if node.module else [])])
            found += [module, *(f"{module}.{alias.name}" for alias in node.names)]
    return [each for each in found if each.partition(".")[0] not in sys.stdlib_module_names]
