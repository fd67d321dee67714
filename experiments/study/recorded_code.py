"""What of the code decides the rows of a study, for run.json: networks and numbers of methods, a user's own modules."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator, Sequence
from contextlib import suppress
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path
from typing import TYPE_CHECKING, Any

from envs.imports import OWN_CODE_FIELDS, is_import
from experiments.own_methods import find_method, method_name
from experiments.results.files import sha256
from experiments.results.run_info import as_written
from experiments.results.selector_network import SelectorNetwork
from experiments.study.settings import ENV_PREFIX

if TYPE_CHECKING:
    from bippo_rllib import BippoConfig
    from experiments.study.study import Study

#: What comes with the project or is installed is known by its version.
_OURS = ("bippo_rllib", "envs", "experiments")
_INSTALLED = ("site-packages", "dist-packages")
#: Settings of BippoConfig that change what is shown or where it runs, and no row.
_NO_NUMBERS = ("per_policy_metrics", "env_bundles")


def networks(study: Study) -> dict[str, list[SelectorNetwork | None]]:
    """Returns what each method trains in each of the study's draws, by the method's name in rows.

    Methods that cannot be made are left out; their trials say why.
    """
    from experiments.study.selector_macs import network_of
    from experiments.study.trial import study_config

    found = {}
    for method in study.methods:
        with suppress(ValueError):
            found[method_name(method)] = [network_of(study_config(study, method, draw)) for draw in study.draws]
    return found


def method_settings(methods: Sequence[str]) -> dict[str, dict[str, Any]]:
    """Returns the settings that each method starts from, before those of the study, by its name in rows.

    Args:
        methods: As in ``--methods``; those that cannot be made are left out.
    """
    found = {}
    for name in methods:
        with suppress(ValueError):
            found[method_name(name)] = _settings_of(name)
    return found


def _settings_of(name: str) -> dict[str, Any]:
    method = find_method(name)
    config = method.make_config()
    needed = {f"{ENV_PREFIX}{key}": value for key, value in method.federation.items()}
    found = {key: getattr(config, key) for key in _deciding(config)}
    return {key: as_written({key: _named(value)})[key] for key, value in sorted({**found, **needed}.items())}


def _deciding(config: BippoConfig) -> set[str]:
    """BIPPO's own settings, and those of RLlib's that its update goes by."""
    from ray.rllib.algorithms.ppo import PPOConfig

    from bippo_rllib.rllib_settings import HONOURED

    own = vars(config).keys() - vars(PPOConfig()).keys() - set(_NO_NUMBERS)
    return {key for key in {*own, *HONOURED["the update"].split()} if not key.startswith("_") and hasattr(config, key)}


def _named(value: Any) -> Any:
    """Code by its name, and objects by that of their class: their texts may hold addresses."""
    if isinstance(value, type | type(_named)):
        return f"{value.__module__}.{value.__qualname__}"
    if isinstance(value, dict):
        return {str(key): _named(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [_named(entry) for entry in value]
    return value if isinstance(value, type(None) | bool | int | float | str) else _named(type(value))


def own_modules(study: Study) -> dict[str, str]:
    """Returns the SHA-256 of each module of a user's that the study runs, and of what those import beside them.

    Nothing is imported. A module that is not found is left out; importing it says so.
    """
    fields = [f"{ENV_PREFIX}{name}" for name in OWN_CODE_FIELDS]
    settings = [{**study.settings, **draw}.get(field) for draw in study.draws for field in fields]
    named = [text.partition(":")[0] for text in (*study.methods, *settings) if text is not None and is_import(text)]
    files: dict[str, Path] = {}
    for module in named:
        _collect(module, files)
    return {name: sha256(path) for name, path in sorted(files.items())}


def _collect(module: str, files: dict[str, Path]) -> None:
    """Adds a module, the packages it lies in, and all that they import of the same folder or package."""
    waiting = [module]
    root = _root(module)
    while waiting and root is not None:
        for name, path in _located(waiting.pop(), root):
            if name not in files:
                files[name] = path
                waiting += _imported(name, path)


def _root(module: str) -> Path | None:
    """The folder whose code is taken for the user's: where the module lies; its package alone if it is installed."""
    spec = PathFinder.find_spec(module.partition(".")[0])
    path = None if spec is None else _file_of(spec)
    if path is None:
        return None
    folder = path.parent
    is_package = spec is not None and spec.submodule_search_locations is not None
    if is_package and not {*folder.parts} & {*_INSTALLED}:
        return folder.parent
    return folder


def _located(module: str, root: Path) -> Iterator[tuple[str, Path]]:
    """Each package that a module lies in and the module itself, with their files, as far as they lie below ``root``."""
    parts, where = module.split("."), None
    for length in range(1, len(parts) + 1):
        name = ".".join(parts[:length])
        spec = PathFinder.find_spec(name, where)
        if spec is None or parts[0] in _OURS:
            return
        path = _file_of(spec)
        if path is not None:
            if not path.is_relative_to(root) or {*path.relative_to(root).parts} & {*_INSTALLED}:
                return
            yield name, path
        where = spec.submodule_search_locations
        if where is None:
            return


def _file_of(spec: ModuleSpec) -> Path | None:
    """None for a folder without ``__init__.py``."""
    return Path(spec.origin).resolve() if spec.has_location and spec.origin else None


def _imported(name: str, path: Path) -> list[str]:
    """Names of modules that the source of a module imports, anywhere in it, and of what may be modules."""
    if path.suffix != ".py":
        return []
    try:
        tree = ast.parse(path.read_bytes())
    except (OSError, SyntaxError, ValueError, RecursionError):
        return []  # importing it says what is wrong
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
