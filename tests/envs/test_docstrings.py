"""Docstrings of public functions say what a function does."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from source_tree import modules

#: "Returns", "Trains"; no "The", "Whether", "See", "As" or a type.
VERB = re.compile(r"(?!This\b)[A-Z][a-z]+[a-z]s\b")


def public_functions(node: ast.AST, prefix: str) -> Iterator[tuple[str, str]]:
    """Names and docstrings of the functions and methods below ``node`` that have one."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.ClassDef | ast.FunctionDef) and not child.name.startswith("_"):
            if isinstance(child, ast.FunctionDef) and (text := ast.get_docstring(child)):
                yield f"{prefix}.{child.name}", text
            if isinstance(child, ast.ClassDef):
                yield from public_functions(child, f"{prefix}.{child.name}")


def test_docstrings_of_public_functions_begin_with_a_verb():
    trees = {name: ast.parse(file.read_text(encoding="utf-8")) for name, file in modules("envs").items()}
    found = [each for name, tree in trees.items() for each in public_functions(tree, name)]
    assert len(found) > 150
    assert [name for name, text in found if not VERB.match(text)] == []
