"""Private names of RLlib, Ray, PyTorch and Gymnasium are used in one file."""

from __future__ import annotations

import ast
import importlib
import inspect

from source_tree import modules

COMPAT = "bippo_rllib.rllib_compat"
#: Documented hooks that begin with an underscore all the same.
HOOKS = {"_forward", "_forward_inference", "_forward_exploration", "_before_evaluate"}


def is_private(name: str) -> bool:
    return name.startswith("_") and not name.startswith("__")


def private_names_in(source: str) -> set[str]:
    """Private attributes that are used, and private methods that are defined."""
    nodes = list(ast.walk(ast.parse(source)))
    used = {node.attr for node in nodes if isinstance(node, ast.Attribute)}
    return {name for name in used | {n.name for n in nodes if isinstance(n, ast.FunctionDef)} if is_private(name)}


def private_names_of_others(module: str) -> set[str]:
    """Private names of every class from another package that a class in the module is derived from."""
    classes = [thing for thing in vars(importlib.import_module(module)).values() if inspect.isclass(thing)]
    bases = {base for thing in classes if thing.__module__ == module for base in thing.__mro__}
    foreign = [base for base in bases if base.__module__.startswith(("ray.", "torch.", "gymnasium."))]
    return set().union(*(private_names_in(inspect.getsource(base)) for base in foreign)) - {"_abc_impl"}


def test_private_names_of_rllib_are_used_in_one_file() -> None:
    found = {}
    for module, path in modules("bippo_rllib").items():
        source = path.read_text(encoding="utf-8")
        tree = ast.parse(source)
        foreign = private_names_of_others(module) if module.partition("bippo_rllib.")[2] else set()
        names = private_names_in(source) & foreign - HOOKS
        imported = {
            alias.name
            for node in ast.walk(tree)
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith(("ray", "torch", "gymnasium"))
            for alias in node.names
            if is_private(alias.name)
        }
        if names | imported:
            found[module] = names | imported
    assert found.keys() == {COMPAT}, found
    assert len(found[COMPAT]) > 10


def test_nothing_else_is_taken_out_of_an_object_by_a_private_name() -> None:
    """Where an attribute of something but ``self`` is private, a module of ours defines it."""
    sources = {module: path.read_text(encoding="utf-8") for module, path in modules("bippo_rllib").items()}
    ours = {
        name
        for module, source in sources.items()
        if module != COMPAT
        for node in ast.walk(ast.parse(source))
        for name in ([node.name] if isinstance(node, ast.FunctionDef) else [])
    }
    for module, source in sources.items():
        if module == COMPAT:
            continue
        taken = {
            node.attr
            for node in ast.walk(ast.parse(source))
            if isinstance(node, ast.Attribute)
            and is_private(node.attr)
            and not (isinstance(node.value, ast.Name) and node.value.id in ("self", "cls"))
        }
        assert taken - ours - HOOKS == set(), module
