"""Why trials fail, as fields that survive the way from their processes to the study's; above all a full disk."""

from __future__ import annotations

import errno
import pickle
import shutil
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from envs.checks import described

#: Of a trial's folder; Tune writes it.
ERROR_FILE = "error.txt"
_DISK_FULL = (errno.ENOSPC, errno.EDQUOT)


class TrialFailed(RuntimeError):
    """Raised by a trial in place of its error; Ray keeps the fields, but neither a chain of errors nor their numbers.

    Attributes:
        reason: The first error of the chain, in one line.
        is_disk_full: Whether an error of the chain is a full disk.
    """

    def __init__(self, reason: str, is_disk_full: bool) -> None:
        super().__init__(reason, is_disk_full)
        self.reason, self.is_disk_full = reason, is_disk_full

    @classmethod
    def of(cls, error: BaseException) -> TrialFailed:
        """Returns the failure that ``error`` stands for; ``error`` itself if it is one already."""
        return error if isinstance(error, cls) else cls(described(list(_chain(error))[-1]), is_disk_full(error))


@dataclass(frozen=True)
class Failure:
    """A trial that did not finish: its cause in one line, and the file with the whole traceback."""

    trial: str
    cause: str
    error_file: str


def failure_of(result: Any) -> Failure | None:
    """Returns why a trial failed, given Tune's result of it; None if it did not fail."""
    if result.error is None:
        return None
    folder = Path(result.path)
    return Failure(folder.name, _cause(result.error), str(folder / ERROR_FILE))


def stopped_by_full_disk(trial: Any) -> bool:
    """Returns whether a Tune trial that has just failed found the disk full."""
    # Tune's local copy: the one in the results folder may be what could not be written.
    pickled = trial.pickled_error_file
    error = pickle.loads(Path(pickled).read_bytes()) if pickled and Path(pickled).exists() else None
    return error is not None and TrialFailed.of(error).is_disk_full


def is_disk_full(error: BaseException) -> bool:
    """Returns whether an error, or one in its chain, is a full disk."""
    return any(isinstance(each, OSError) and each.errno in _DISK_FULL for each in _chain(error))


def full_disk_message(results_dir: Path, can_resume: bool, resume_command: str) -> str:
    """Returns one line with the full folder, its free space, the folder that is kept, and how to resume."""
    temporary = Path(tempfile.gettempdir())
    folder = min((results_dir, temporary), key=_free_bytes)  # the results folder if both are on one disk
    purpose = "" if folder == results_dir else ", where Ray keeps its files"
    then = f"resume with: {resume_command}" if can_resume else "run the command again"
    return (
        f"no space left on the disk of {folder}{purpose} ({_size(_free_bytes(folder))} free); rows and complete "
        f"checkpoints written until now are kept in {results_dir}. Make room, then {then}"
    )


def _chain(error: BaseException | None) -> Iterator[BaseException]:
    """Yields the error, its cause and so on to the first; also causes in other processes, which Ray's errors have."""
    while error is not None:
        yield error
        other = getattr(error, "cause", None)
        before = None if error.__suppress_context__ else error.__context__
        error = other if isinstance(other, BaseException) else error.__cause__ or before


def _cause(error: Any) -> str:
    """Returns why a trial failed, in one line; the last one says most of an error that Ray raises itself."""
    if hasattr(error, "cause"):
        return TrialFailed.of(error).reason
    return (str(error).strip().splitlines() or ["unknown"])[-1]


def _free_bytes(folder: Path) -> int:
    existing = next(path for path in (folder, *folder.parents) if path.exists())
    return shutil.disk_usage(existing).free


def _size(num_bytes: int) -> str:
    return f"{num_bytes / 2**20:.1f} MiB" if num_bytes < 2**30 else f"{num_bytes / 2**30:.1f} GiB"
