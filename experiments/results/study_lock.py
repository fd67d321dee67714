"""One study at a time in a results folder."""

from __future__ import annotations

import fcntl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

LOCK_FILE = ".lock"


@contextmanager
def study_lock(results_dir: Path) -> Iterator[None]:
    """Holds the folder for this process; the lock goes with the process, however that ends.

    Raises:
        ValueError: If another process holds it.
    """
    results_dir.mkdir(parents=True, exist_ok=True)
    with (results_dir / LOCK_FILE).open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise ValueError(f"another study is running in {results_dir}; wait, or name another folder") from None
        yield
