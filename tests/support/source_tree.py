"""The packages as their files say they are: modules, and who imports whom."""

from __future__ import annotations

import ast
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def modules(package: str) -> dict[str, Path]:
    """File of each module of a package by its dotted name, the package's own among them."""
    found = {}
    for path in sorted((ROOT / package).rglob("*.py")):
        parts = path.relative_to(ROOT).with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


def imports(path: Path) -> set[str]:
    """Every name that a file imports, wherever in it, dotted: ``from a import b`` is ``a.b``."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path} imports relatively"
            names |= {f"{node.module}.{alias.name}" for alias in node.names}
    return names


def packages_imported(path: Path) -> set[str]:
    """Top-level packages that a file imports."""
    return {name.partition(".")[0] for name in imports(path)}


def import_graph(package: str) -> dict[str, set[str]]:
    """Modules of the same package that each of its modules imports."""
    found = modules(package)
    return {
        module: {_module_of(name, found) for name in imports(path)} - {"", module} for module, path in found.items()
    }


def _module_of(name: str, known: dict[str, Path]) -> str:
    """The module that an imported name is or comes from; "" if it is of another package."""
    if name in known:
        return name
    parent = name.rpartition(".")[0]
    return parent if parent in known else ""
