"""What ends trials: the last round, and for all of them a full disk, which none of them would survive."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ray import tune
from ray.tune.stopper import Stopper

from experiments.disk_space import tells_of_full_disk


class FullDiskWatch(tune.Callback):
    """Notices the first trial that fails because nothing can be written.

    Attributes:
        noticed: Whether there was one.
    """

    def __init__(self) -> None:
        self.noticed = False

    def on_trial_error(self, iteration: int, trials: Sequence[Any], trial: Any, **info: Any) -> None:
        error = trial.get_error()
        self.noticed = self.noticed or (error is not None and tells_of_full_disk(error))


class StudyEnd(Stopper):
    """Stops a trial after its last round, and all trials once the disk is full."""

    def __init__(self, rounds: int, watch: FullDiskWatch) -> None:
        self._rounds, self._watch = rounds, watch

    def __call__(self, trial_id: str, result: dict[str, Any]) -> bool:
        return bool(result["round"] >= self._rounds)

    def stop_all(self) -> bool:
        return self._watch.noticed
