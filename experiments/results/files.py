"""Files that commands write: whole or not at all, hashed, in folders that can be written, by one study at a time."""

from __future__ import annotations

import hashlib
import os
import re
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from filelock import FileLock, Timeout

LOCK_FILE = ".lock"
#: Folders in which Tune and resumed studies keep a trial's state. They come and go while a study runs.
CHECKPOINT_FOLDER = re.compile(r"checkpoint_\d+|resumed_checkpoint")


@contextmanager
def atomic_write(path: Path) -> Iterator[Path]:
    """Yields a path to write to, which then replaces ``path``; after an error, ``path`` is unchanged.

    A reader never sees half a file, and a killed process keeps what was written before.
    """
    unfinished = path.with_name(f"{path.name}.tmp")
    try:
        yield unfinished
        os.replace(unfinished, path)
    except BaseException:
        unfinished.unlink(missing_ok=True)
        raise


def files_named(folder: Path, name: str) -> Iterator[Path]:
    """Yields the files of that name in a folder and all below it, except in checkpoints."""
    for parent, folders, files in os.walk(folder):
        folders[:] = [below for below in folders if not CHECKPOINT_FOLDER.fullmatch(below)]
        if name in files:
            yield Path(parent, name)


def sha256(path: Path) -> str:
    """Returns the SHA-256 of a file's content, in hexadecimal; ``FileNotFoundError`` for a pipe or a device."""
    if not path.is_file():  # reading a pipe or a device may never end
        raise FileNotFoundError(f"{path} is no file")
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while chunk := file.read(2**20):
            digest.update(chunk)
    return digest.hexdigest()


def check_decoded(text: str) -> None:
    """Refuses text with bytes that Python could not decode, which cannot be written to a UTF-8 file.

    Raises:
        ValueError: With the environment variable to set.
    """
    if not text.isascii() and any("\udc80" <= sign <= "\udcff" for sign in text):
        raise ValueError(
            f"{text!r} has bytes that are no {sys.getfilesystemencoding()}, this system's encoding; "
            "set PYTHONUTF8=1, or use another name"
        )


def check_writable(path: Path, what: str = "results folder") -> None:
    """Refuses a folder in which nothing can be written. It need not exist yet and is not made.

    Raises:
        ValueError: If it is a file, its path is no text, or it or the folder it would be made in cannot be written.
    """
    check_decoded(str(path.absolute()))
    existing = next(folder for folder in (path, *path.absolute().parents) if os.path.lexists(folder))
    if not existing.is_dir():
        raise ValueError(f"{what} {path}: {existing} is a file; name a folder")
    try:
        with tempfile.TemporaryFile(dir=existing):
            pass
    except OSError as error:
        raise ValueError(f"{what} {path} cannot be written: {error.strerror} in {existing}; name another one") from None


@contextmanager
def study_lock(results_dir: Path) -> Iterator[None]:
    """Holds the folder for this process; the lock goes with the process, however that ends.

    Raises:
        ValueError: If another process holds it.
    """
    results_dir.mkdir(parents=True, exist_ok=True)
    try:
        lock = FileLock(results_dir / LOCK_FILE, timeout=0).acquire()
    except Timeout:
        raise ValueError(f"another study is running in {results_dir}; wait, or name another folder") from None
    with lock:
        yield
