"""Checkpoints with a manifest, so that incomplete ones are detected, and where an interrupted trial resumes."""

from __future__ import annotations

import json
import math
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow.compute as pc
from pydantic import TypeAdapter

from experiments.results.files import CHECKPOINT_FOLDER, sha256
from experiments.results.ranges import Count
from experiments.results.rows import ROWS_FILE, read_table, write_table

MANIFEST = "manifest.json"
RESUMED = "resumed_checkpoint"


@dataclass(frozen=True)
class Checkpoint:
    """A complete checkpoint, taken after ``round``; ``over`` if none can follow or a callback ended the trial."""

    path: Path
    round: int
    over: bool


@dataclass(frozen=True)
class _Manifest:
    """What manifest.json holds: the round, whether the episode is over, and the SHA-256 of each file by its name."""

    round: Count
    over: bool
    files: Mapping[str, str]


_MANIFEST = TypeAdapter(_Manifest)


def write_manifest(folder: Path, round_number: int, over: bool = False) -> None:
    """Lists every file of a finished checkpoint with its hash, so that a partial copy of it can be recognised."""
    files = {path.relative_to(folder).as_posix(): sha256(path) for path in sorted(folder.rglob("*")) if path.is_file()}
    (folder / MANIFEST).write_text(json.dumps({"round": round_number, "over": over, "files": files}, indent=1))


def checkpoint_at(folder: Path) -> Checkpoint | None:
    """Returns the checkpoint in ``folder``, or None if a kill left it incomplete."""
    manifest = _manifest(folder)
    return Checkpoint(folder, manifest.round, manifest.over) if manifest and _is_whole(folder, manifest) else None


def _manifest(folder: Path) -> _Manifest | None:
    try:
        return _MANIFEST.validate_json((folder / MANIFEST).read_bytes(), strict=True)
    except (OSError, ValueError):
        return None


def _is_whole(folder: Path, manifest: _Manifest) -> bool:
    try:
        return all(
            _is_inside(folder, name) and sha256(folder / name) == digest for name, digest in manifest.files.items()
        )
    except (OSError, ValueError):
        return False


def _is_inside(folder: Path, name: str) -> bool:
    return (folder / name).resolve().is_relative_to(folder.resolve())


def newest_checkpoint(trial_dir: Path, before: float = math.inf) -> Checkpoint | None:
    """Returns the complete checkpoint of the latest round ``before`` another one, whatever its folder is called."""
    complete = filter(None, map(checkpoint_at, sorted(trial_dir.glob("*checkpoint*"))))
    found = [checkpoint for checkpoint in complete if checkpoint.round < before]
    return max(found, key=lambda checkpoint: checkpoint.round, default=None)


def ended_early(trial_dir: Path) -> bool:
    """Returns whether a trial is over before its last round, as its newest manifest says; reads no checkpoint."""
    manifests = filter(None, map(_manifest, trial_dir.glob("*checkpoint*")))
    return max(((manifest.round, manifest.over) for manifest in manifests), default=(0, False))[1]


def finished(trial_dir: Path, rounds: int) -> bool:
    """Returns whether a trial has all its rows and its last checkpoint; it may have ended early, see ``Checkpoint``."""
    newest = newest_checkpoint(trial_dir)
    if newest is None or not (newest.over or newest.round >= rounds):
        return False
    written = rounds_written(trial_dir)
    return len(written) == (newest.round if newest.over else rounds) and _starts_with_all(written, len(written))


@dataclass(frozen=True)
class Start:
    """Where an interrupted trial resumes."""

    checkpoint: str  #: To resume from; empty to start over.
    why_over: str = ""  #: Reason to start over although there is a checkpoint, in a sentence.


def truncate_to_checkpoint(trial_dir: Path, rounds: int) -> Start:
    """Removes all checkpoints but the latest before ``rounds`` from a trial's folder, and all rows after it.

    Without a checkpoint, and where rows before it are missing, the trial starts over.
    """
    newest, why_over = newest_checkpoint(trial_dir, before=rounds), ""
    if newest is not None and not _starts_with_all(rounds_written(trial_dir), newest.round):
        why_over = f"{ROWS_FILE} does not hold rounds 1 to {newest.round}, so they are run again"
        newest = None
    kept = trial_dir / RESUMED
    if newest is not None and newest.path != kept:
        shutil.rmtree(kept, ignore_errors=True)
        newest.path.rename(kept)
    for folder in trial_dir.iterdir() if trial_dir.is_dir() else ():
        if CHECKPOINT_FOLDER.fullmatch(folder.name) and folder.is_dir() and (newest is None or folder != kept):
            shutil.rmtree(folder)
    _cut_rows(trial_dir / ROWS_FILE, newest.round if newest else 0)
    return Start(str(kept) if newest else "", why_over)


def rounds_written(trial_dir: Path) -> Sequence[int]:
    """Returns the rounds that have a row; none if the file is missing or unreadable."""
    try:
        return read_table(trial_dir / ROWS_FILE, ["round"])["round"].to_pylist()
    except (OSError, ValueError, KeyError):
        return []


def _starts_with_all(written: Sequence[int], rounds: int) -> bool:
    """Returns whether ``written`` starts with 1 to ``rounds``, which may be any number, as it is read from a file."""
    return len(written) >= rounds and list(written[:rounds]) == list(range(1, rounds + 1))


def _cut_rows(path: Path, last_round: int) -> None:
    if last_round == 0:
        path.unlink(missing_ok=True)
        return
    write_table(read_table(path).filter(pc.field("round") <= last_round), path)
