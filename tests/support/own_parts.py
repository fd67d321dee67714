"""The modules on the page about custom code, as files."""

from __future__ import annotations

import re
from pathlib import Path

PAGE = Path(__file__).resolve().parents[2] / "docs" / "your-own.md"


def write_modules(folder: Path) -> None:
    """Writes ``mine.py``, ``parts.py`` and ``stop.py``."""
    blocks = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    for name, block in zip(("mine.py", "parts.py", "stop.py"), blocks, strict=True):
        (folder / name).write_text(block, encoding="utf-8")
