"""Detects disk-full errors and words the message, without Ray."""

from __future__ import annotations

import errno
import os
import shutil
import tempfile
import traceback
from pathlib import Path

_SIGNS = tuple(sign for code in (errno.ENOSPC, errno.EDQUOT) for sign in (f"[Errno {code}]", os.strerror(code)))


def is_disk_full(error: BaseException | str) -> bool:
    """Whether an error, one before it in its chain, or a text from another process says that the disk is full."""
    text = error if isinstance(error, str) else "".join(traceback.format_exception(error))
    return any(sign in text for sign in _SIGNS)


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
