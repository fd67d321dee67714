"""One trial of a study as Tune runs it."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from ray import tune
from ray.rllib.utils import force_list
from ray.tune.result import DONE

from bippo_rllib import Bippo
from experiments.results.checkpoints import write_manifest
from experiments.study.failure import TrialFailed
from experiments.study.logger_tags import grouped
from experiments.study.loggers import POINTS
from experiments.study.row_callback import EPISODE_OVER, RowCallback
from experiments.study.tensorboard import EventFile
from experiments.study.transfer import check_unchanged
from experiments.study.trial_config import config_of

#: Seconds between results for Tune, whose driver takes longer for one than many a round.
RESULT_INTERVAL_S = 1.0


class StudyTrial(Bippo):
    """``Bippo`` for a point of a study's search space: one torch thread, many rounds a result, logs that survive."""

    _error: TrialFailed | None = None
    _ended_early = False
    _events: EventFile | None = None

    def __init__(self, config: Any = None, **kwargs: Any) -> None:
        os.environ["OMP_NUM_THREADS"] = "1"
        torch.set_num_threads(1)
        # Tune gives a point of the search space; a restored checkpoint gives RLlib's dict.
        is_point = isinstance(config, dict) and "scenario" in config
        if is_point and config["working_dir"] not in sys.path:
            sys.path.append(config["working_dir"])  # for custom methods, models and data sets
        if not is_point:
            super().__init__(config, **kwargs)
            return
        try:
            with self._failing():
                super().__init__(config_of(config), **kwargs)
                self._start(config)
        except TrialFailed:
            # Raised by the first ``train``: Ray would reduce it to text here, and after a reset Tune would keep a
            # process too many. Until then Tune expects a whole ``Trainable``.
            tune.Trainable.__init__(self, **kwargs)

    def setup(self, config: Any) -> None:
        """Overrides ``Algorithm.setup`` to build nothing in a trial that has failed."""
        if self._error is None:
            super().setup(config)

    @contextmanager
    def _failing(self) -> Iterator[None]:
        """Raises ``TrialFailed`` for whatever the body of a ``with`` raises, and for all that follows."""
        try:
            if self._error is not None:
                raise self._error
            yield
        except Exception as error:
            self._error = TrialFailed.of(error)
            raise self._error from error

    def _start(self, space: Mapping[str, Any]) -> None:
        """Opens the trial's logs; restores a checkpoint, or loads policies, if the point has one."""
        trial, rows = space["trial"], self._row_callbacks()[0]
        self._checkpoint_every, self._rungs = space["checkpoint_every"], space["rungs"]
        if self._storage is not None:
            shown = {"scenario": space["scenario"], "method": trial["method"], "seed": trial["seed"], **space["shown"]}
            self._events = EventFile(Path(self._storage.trial_fs_path), {**shown, **trial["search"]})
        if trial["resume_from"]:
            self.restore_from_path(trial["resume_from"])
            rows.on_resumed(self)
            if self._events is not None:
                self._events.continue_after(self.training_iteration)
        elif trial["init_from"]:
            check_unchanged(trial["init_from"], trial["init_sha256"])
            self.load_policies(trial["init_from"], epsilon={**space["settings"], **trial["search"]}.get("epsilon"))
            rows.on_policies_loaded(self)

    def reset(self, new_config: dict[str, Any], storage: Any = None) -> bool:
        """Overrides ``Trainable.reset`` to run another trial in this process; imports take longer than a short trial.

        After ``reset_config``, Tune would set the counters of a resumed trial to 0.
        """
        self.stop()
        self._error = self._events = None
        self._ended_early = False
        StudyTrial.__init__(self, new_config, storage=storage)
        return True

    def __repr__(self) -> str:
        """Overrides ``Algorithm``'s, which Ray calls also where a trial failed before it had a configuration."""
        return type(self).__name__

    def train(self) -> dict[str, Any]:
        """Runs rounds until Tune needs a result or ``RESULT_INTERVAL_S`` have passed, which changes no row.

        An error after the first of these rounds is raised by the next call, so that Tune gets the rounds before.

        Returns:
            The last round's result, with the numbers of each round under ``POINTS``.
        """
        until, rounds = time.monotonic() + RESULT_INTERVAL_S, [self._run_round()]
        while not (self._must_report(rounds[-1]) or time.monotonic() >= until):
            try:
                rounds.append(self._run_round())
            except TrialFailed:
                break
        if self._events is not None:
            self._events.flush()
        return {
            **rounds[-1],
            POINTS: [point for result in rounds for point in result[POINTS]],
            "meter_warnings": [warning for result in rounds for warning in result["meter_warnings"]],
            "config": {},  # of no use to Tune, which would flatten all of it
        }

    def _run_round(self) -> dict[str, Any]:
        """Runs one round and logs it."""
        with self._failing():
            result = super().train()
            if result.get(DONE):  # a callback ends the trial
                self._ended_early = result[EPISODE_OVER] = True
            numbers = grouped(result)
            if self._events is not None:
                self._events.add(numbers, result["round"])
        return {**result, POINTS: [(int(result["round"]), numbers)]}

    def _must_report(self, result: Mapping[str, Any]) -> bool:
        """Returns whether Tune ends the trial, compares it or takes a checkpoint after this round."""
        done = result["training_iteration"]
        return result[EPISODE_OVER] or done in self._rungs or done % self._checkpoint_every == 0

    def save(self, checkpoint_dir: str | None = None) -> Any:
        """Overrides ``Trainable.save`` to raise ``TrialFailed``."""
        with self._failing():
            return super().save(checkpoint_dir)

    @classmethod
    def default_resource_request(cls, config: Any) -> tune.PlacementGroupFactory:
        """Returns a bundle for each FL actor; without actors one core, and the trial's share of a GPU.

        A trial with actors reserves no core itself: it waits while they train, and they wait while it learns.
        """
        if config["bundles"]:
            return tune.PlacementGroupFactory([{}, *config["bundles"]])
        return tune.PlacementGroupFactory([{"CPU": 1.0, "GPU": float(config["gpu_share"])}])

    def save_checkpoint(self, checkpoint_dir: str) -> None:
        """Overrides ``Bippo``'s to write rows first, and a manifest, by which an incomplete checkpoint is detected."""
        self.flush_rows()
        super().save_checkpoint(checkpoint_dir)
        env = self.parallel_env
        done = env.last_round.round
        write_manifest(
            Path(checkpoint_dir), done, over=done < env.config.rounds and (self._ended_early or not env.agents)
        )

    def cleanup(self) -> None:
        """Overrides ``Bippo``'s to write the end of the logs, also if the trial is stopped early."""
        self.flush_rows()
        if self._events is not None:
            self._events.close(failed=self._error is not None)
            self._events = None
        super().cleanup()

    def flush_rows(self) -> None:
        """Writes rows that are not on disk yet."""
        for callback in self._row_callbacks():
            callback.flush()

    def _row_callbacks(self) -> list[RowCallback]:
        callbacks = force_list(getattr(self, "callbacks", None))  # none in a trial that failed early
        return [callback for callback in callbacks if isinstance(callback, RowCallback)]
