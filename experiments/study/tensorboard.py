"""TensorBoard log of one trial: tags in groups, and its settings in the HPARAMS tab from the start."""

from __future__ import annotations

import time
from collections.abc import Mapping
from contextlib import nullcontext, suppress
from pathlib import Path
from typing import Any

from tensorboardX.event_file_writer import EventsWriter
from tensorboardX.proto.event_pb2 import Event, SessionLog
from tensorboardX.proto.summary_pb2 import Summary
from tensorboardX.summary import hparams

#: Columns of the HPARAMS tab beside the settings.
HPARAM_METRICS = ("accuracy/mean_accuracy", "accuracy/mean_accuracy_last_10", "energy/energy_total_j")


class EventFile:
    """The event file in a trial's folder, written by the trial itself, so that curves appear while it runs.

    tensorboardX's ``SummaryWriter`` writes in a thread, whose errors, such as a full disk, would be lost.

    Args:
        folder: Folder of the trial.
        settings: Settings of the trial, for the HPARAMS tab.
    """

    def __init__(self, folder: Path, settings: Mapping[str, Any]) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        # The file's name has whole seconds only: a trial that starts again within one would replace what it has logged.
        self._writer = EventsWriter(str(folder / "events"), filename_suffix=f".{time.time_ns()}")
        experiment, start, self._end = hparams(
            {key: _plain(value) for key, value in settings.items()}, dict.fromkeys(HPARAM_METRICS)
        )
        self._write(summary=experiment)
        self._write(summary=start)

    def continue_after(self, round_number: int) -> None:
        """Makes TensorBoard hide later rounds of an earlier file, since they are run again."""
        self._write(session_log=SessionLog(status=SessionLog.START), step=round_number + 1)

    def add(self, numbers: Mapping[str, float], round_number: int) -> None:
        """Adds a point to the curve of each tag; the step is the round."""
        values = [Summary.Value(tag=tag, simple_value=value) for tag, value in numbers.items()]
        self._write(summary=Summary(value=values), step=round_number)

    def flush(self) -> None:
        """Writes added points to disk."""
        self._writer.flush()

    def close(self, failed: bool) -> None:
        """Closes the file, with a mark that the trial has ended unless it ``failed``, perhaps for a full disk."""
        if not failed:
            self._write(summary=self._end)
        with suppress(OSError) if failed else nullcontext():
            self._writer.close()

    def _write(self, **fields: Any) -> None:
        self._writer.write_event(Event(wall_time=time.time(), **fields))


def _plain(value: Any) -> bool | int | float | str:
    """Returns the value as the tab can show it."""
    return value if isinstance(value, bool | int | float | str) else str(value)
