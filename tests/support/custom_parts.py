"""The modules on the page about custom code, as files."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

PAGE = Path(__file__).resolve().parents[2] / "docs" / "your-own.md"


def write_modules(folder: Path) -> None:
    """Writes ``mine.py``, ``parts.py`` and ``stop.py``."""
    blocks = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    for name, block in zip(("mine.py", "parts.py", "stop.py"), blocks, strict=True):
        (folder / name).write_text(block, encoding="utf-8")


@contextmanager
def modules_in(folder: Path, monkeypatch: pytest.MonkeyPatch, **more: str) -> Iterator[None]:
    """Starts in a folder with these modules and ``more``, source by name; forgets them at the end."""
    write_modules(folder)
    for name, source in more.items():
        (folder / f"{name}.py").write_text(source, encoding="utf-8")
    monkeypatch.chdir(folder)
    monkeypatch.syspath_prepend(str(folder))
    yield
    for name in ("mine", "parts", "stop", *more):
        sys.modules.pop(name, None)
