"""A tutorial as a Jupyter notebook: its Python blocks are cells, a text block behind one is what it prints."""

from __future__ import annotations

import json
import re
from typing import Any

_CODE = re.compile(r"```python\n(.*?)```\n(?:\n```text\n(.*?)```\n)?", re.DOTALL)


def notebook(page: str) -> str:
    """The notebook of a Markdown page, as the text of a file."""
    cells: list[dict[str, Any]] = []
    start = 0
    for found in _CODE.finditer(page):
        cells += [_cell("markdown", page[start : found.start()]), _code(*found.groups())]
        start = found.end()
    cells.append(_cell("markdown", page[start:]))
    content = {
        "cells": [{"id": f"cell-{number}", **cell} for number, cell in enumerate(cells)],
        "metadata": {"kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"}},
        "nbformat": 4,
        "nbformat_minor": 5,
    }
    return json.dumps(content, indent=1, ensure_ascii=False) + "\n"


def _cell(kind: str, text: str) -> dict[str, Any]:
    return {"cell_type": kind, "metadata": {}, "source": text.strip().splitlines(keepends=True)}


def _code(code: str, printed: str | None) -> dict[str, Any]:
    outputs = (
        [{"output_type": "stream", "name": "stdout", "text": printed.splitlines(keepends=True)}] if printed else []
    )
    return {**_cell("code", code), "execution_count": None, "outputs": outputs}
