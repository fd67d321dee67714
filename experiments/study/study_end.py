"""Stopping criteria: no round can follow, and for all trials a full disk."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ray import tune
from ray.tune.stopper import Stopper

from experiments.study.disk_space import is_disk_full
from experiments.study.row_callback import EPISODE_OVER


class FullDiskWatch(tune.Callback):
    """Notices the first trial that fails because nothing can be written.

    Attributes:
        noticed: Whether there was one.
    """

    def __init__(self) -> None:
        self.noticed = False

    def on_trial_error(self, iteration: int, trials: Sequence[Any], trial: Any, **info: Any) -> None:
        """Looks for the words of a full disk in the trial's error."""
        # Tune's local copy: the one in the results folder may be what could not be written.
        error_file = trial.error_file
        text = Path(error_file).read_text(errors="replace") if error_file and Path(error_file).exists() else ""
        self.noticed = self.noticed or is_disk_full(text)


class StudyEnd(Stopper):
    """Stops a trial when no round can follow, and all trials once the disk is full."""

    def __init__(self, watch: FullDiskWatch) -> None:
        self._watch = watch

    def __call__(self, trial_id: str, result: dict[str, Any]) -> bool:
        """Whether the trial ends with this result."""
        return bool(result[EPISODE_OVER])

    def stop_all(self) -> bool:
        """Whether no trial is worth going on with."""
        return self._watch.noticed
