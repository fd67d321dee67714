"""The results folder of a study: a new one, and what is wrong with one that is not."""

from __future__ import annotations

import datetime
import shlex
from pathlib import Path

from experiments.results.files import check_writable
from experiments.results.rows import ROWS_FILE
from experiments.results.run_info import RUN_FILE


def new_results_dir(requested: Path | None, name: str) -> Path:
    """Returns an absolute path to a folder that can be written and holds no other run; does not create it.

    Args:
        requested: Value of ``--results-dir``; None for ``results/NAME-DATE-TIME``.
        name: Name of the study.

    Raises:
        ValueError: If it cannot be written or holds a run, in folders below it too.
    """
    stamped = f"{name}-{datetime.datetime.now().strftime('%Y%m%d-%H%M%S')}"
    folder = (requested or Path("results") / stamped).resolve()
    check_writable(folder)
    if (folder / RUN_FILE).exists():
        raise ValueError(holds_a_run(folder))
    # Rows are in folders of trials in the folder of a run.
    if rows := next(folder.rglob(ROWS_FILE), None):
        run = rows.parent.parent
        beside = shlex.join(["--results-dir", str(run.parent / stamped)])
        raise ValueError(f"results folder {folder} already holds the run {run}; name a new one, such as {beside}")
    return folder


def holds_a_run(folder: Path) -> str:
    """Returns the message for a results folder that already holds a run."""
    resume = shlex.join(["--resume", str(folder)])
    return f"results folder {folder} already holds a run; name another one, or resume that run: {resume}"
