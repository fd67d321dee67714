"""Folders that commands write to, looked at before anything is run."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path


def check_writable(path: Path, what: str = "results folder") -> None:
    """Refuse a folder in which nothing can be written. It need not exist yet and is not made.

    Raises:
        ValueError: If it is a file, or it or the folder that it would be made in cannot be written.
    """
    existing = next(folder for folder in (path, *path.absolute().parents) if os.path.lexists(folder))
    if not existing.is_dir():
        raise ValueError(f"{what} {path}: {existing} is a file; name a folder")
    try:
        with tempfile.TemporaryFile(dir=existing):
            pass
    except OSError as error:
        raise ValueError(f"{what} {path} cannot be written: {error.strerror} in {existing}; name another one") from None
