"""One trial: a method on a scenario with a seed, as a point of Tune's search space, a BippoConfig and a Trainable."""

from __future__ import annotations

import functools
import os
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch
from ray import tune
from ray.rllib.callbacks.callbacks import RLlibCallback
from ray.rllib.utils import force_list
from ray.tune.result import DONE

import envs
from bippo_rllib import Bippo, BippoConfig
from envs.config import only_read
from envs.dataset_defaults import absolute_data_dir
from experiments.custom_methods import find_callbacks, find_method
from experiments.results.checkpoints import write_manifest
from experiments.results.setting_text import describe
from experiments.study.failure import TrialFailed
from experiments.study.logger_tags import grouped
from experiments.study.loggers import POINTS
from experiments.study.placement import Placement
from experiments.study.row_callback import EPISODE_OVER, RowCallback, TrialInfo
from experiments.study.scheduler import rungs
from experiments.study.selector_macs import with_selector
from experiments.study.settings import apply_settings, split_settings
from experiments.study.study import Study
from experiments.study.tensorboard import EventFile
from experiments.study.transfer import check_unchanged

#: Seconds between results for Tune, whose driver takes longer for one than many a round.
RESULT_INTERVAL_S = 1.0


def bippo_config(
    info: TrialInfo,
    federation: Mapping[str, Any],
    settings: Mapping[str, Any],
    rounds: int,
    callbacks: Sequence[str] = (),
) -> BippoConfig:
    """Returns the configuration of one trial.

    Args:
        info: Scenario, method as in ``--methods`` and seed, for every row.
        federation: Keywords of ``envs.parallel_env`` without ``rounds`` and ``seed``.
        settings: Algorithm settings, and federation settings under ``env.``, that override the scenario's.
        rounds: FL rounds.
        callbacks: Classes of RLlib callbacks as ``MODULE:NAME``. They see the numbers of the round's row.

    Raises:
        ValueError: For a setting that does not exist, is of the wrong kind or contradicts the method, and for callbacks
            that cannot be imported.
    """
    algorithm, overrides = split_settings(settings)
    method = find_method(info.method)
    keywords = {**method.with_requirements({**federation, **overrides}), "rounds": rounds, "seed": info.seed}
    config = method.make_config()
    config.debugging(seed=info.seed, log_sys_usage=False)  # each trial's end would wait up to 0.7 s for its thread
    rows = functools.partial(RowCallback, info)
    custom = [] if config.callbacks_class is RLlibCallback else force_list(config.callbacks_class)
    config.callbacks([rows, *custom, *map(find_callbacks, callbacks)])
    apply_settings(config, method.settings_taken(algorithm))
    # Once, since RLlib merges what is given later into what was given before.
    return config.environment(env=envs.parallel_env, env_config=only_read(with_selector(keywords, config)))


def study_config(study: Study, method: str, draw: Mapping[str, Any]) -> BippoConfig:
    """Returns the configuration of a method's trials with one draw of the study's settings, for the first seed."""
    info = TrialInfo(study.scenario.name, method, study.seeds[0])
    federation = study.scenario.federation_for(study.rounds)
    return bippo_config(info, federation, {**study.settings, **draw}, study.rounds, study.callbacks)


def param_space(study: Study, placement: Placement) -> dict[str, Any]:
    """Returns Tune's search space, a grid over the trials; ``config_of`` makes a BippoConfig of one of its points."""
    return {
        "scenario": study.scenario.name,
        "trial": tune.grid_search([asdict(trial) for trial in study.trials]),
        "rounds": study.rounds,
        "federation": {
            **study.federation,
            **asdict(placement.execution),
            "data_dir": absolute_data_dir(study.data_dir),  # trials have another environment and working directory
        },
        "settings": split_settings(study.settings)[0],
        "callbacks": study.callbacks,
        "shown": dict(study.settings),
        "checkpoint_every": study.checkpoint_every,
        "rungs": rungs(study.rounds) if study.search else [],
        "working_dir": os.getcwd(),
        "gpu_share": placement.gpu_share,
        "bundles": placement.bundles,
    }


def config_of(space: Mapping[str, Any]) -> BippoConfig:
    """Returns the configuration of one point of ``param_space``."""
    trial = space["trial"]
    searched = dict(trial["search"])
    info = TrialInfo(space["scenario"], trial["method"], int(trial["seed"]), describe(searched))
    settings = {**space["settings"], **searched}
    config = bippo_config(info, space["federation"], settings, space["rounds"], space["callbacks"])
    return config.env_resources(bundles=space["bundles"])


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
        """Whether Tune ends the trial, compares it or takes a checkpoint after this round."""
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
