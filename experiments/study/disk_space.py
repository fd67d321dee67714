"""Detects disk-full errors and words the message."""

from __future__ import annotations

import errno
import os
import shutil
import tempfile
from pathlib import Path

_CODES = (errno.ENOSPC, errno.EDQUOT)
_TEXTS = tuple(os.strerror(code) for code in _CODES)


def is_disk_full(error: BaseException | str) -> bool:
    """Whether an error, its cause, or the text of one from another process says that the disk is full."""
    if isinstance(error, str):
        return any(text in error for text in _TEXTS)
    seen: list[BaseException] = []
    cause: BaseException | None = error
    while cause is not None and cause not in seen:
        if (isinstance(cause, OSError) and cause.errno in _CODES) or is_disk_full(str(cause)):
            return True
        seen.append(cause)
        cause = cause.__cause__ or cause.__context__
    return False


def full_disk_message(results_dir: Path, can_resume: bool, resume_command: str) -> str:
    """One line: which folder, how much is free, what is kept, how to resume."""
    temporary = Path(tempfile.gettempdir())
    folder = min((results_dir, temporary), key=_free_bytes)  # the results folder if both are on one disk
    purpose = "" if folder == results_dir else ", where Ray keeps its files"
    then = f"resume with: {resume_command}" if can_resume else "run the command again"
    return (
        f"no space left on the disk of {folder}{purpose} ({_size(_free_bytes(folder))} free); rows and complete "
        f"checkpoints written until now are kept in {results_dir}. Make room, then {then}"
    )


def _free_bytes(folder: Path) -> int:
    existing = next(path for path in (folder, *folder.parents) if path.exists())
    return shutil.disk_usage(existing).free


def _size(num_bytes: int) -> str:
    return f"{num_bytes / 2**20:.1f} MiB" if num_bytes < 2**30 else f"{num_bytes / 2**30:.1f} GiB"
