"""Runs a study with Ray Tune: trials side by side, quietly, and what made trials fail."""

from __future__ import annotations

import dataclasses
import errno
import os
import sys
from typing import TYPE_CHECKING, Any, TextIO

from envs.settings.energy import FORMULA
from experiments.results.federation_record import FederationRecord
from experiments.results.run_info import add_resumption, add_warmup_energy, write_run_info
from experiments.study.asha_journal import JOURNAL_FILE
from experiments.study.custom_modules import custom_modules
from experiments.study.failure import Failure, failure_of
from experiments.study.loggers import new_loggers
from experiments.study.placement import Placement, place
from experiments.study.ray_session import available_nodes, quiet, start_ray
from experiments.study.recorded_methods import method_settings, networks
from experiments.study.settings import split_settings
from experiments.study.study import Study, Trial

if TYPE_CHECKING:
    from ray.tune import Tuner

    from experiments.study.progress import Progress


def run_study(study: Study, out: TextIO | None = None) -> list[Failure]:
    """Runs all trials and returns the failures; rows and run.json are in ``study.results_dir`` in any case.

    Starts Ray if it does not run; ``ray_session.ray_ended`` around the call shuts it down.

    Raises:
        OSError: If the disk is full.
    """
    quiet()
    study.results_dir.mkdir(parents=True, exist_ok=True)
    _write_record(study)
    out = out or sys.stdout
    start_ray(study.parallel_trials)
    print("starting trials ...", file=out, flush=True)
    return _run_trials(study, out)


def _write_record(study: Study) -> None:
    if study.is_resumed:
        add_resumption(study.results_dir, study.rounds)
        return
    searches_federation = bool(split_settings(study.search)[1])
    # Without probing, for which not all methods are charged, the clients are the same.
    federation = {**study.federation, "rounds": study.rounds, "probing_epochs": 0.0}
    record = None if searches_federation else FederationRecord.of(federation)
    info = dataclasses.replace(
        study.run_info,
        federation_record=record,
        networks=networks(study),
        method_settings=method_settings(study.methods),
        custom_modules=custom_modules(study),
    )
    write_run_info(study.results_dir, info)


def _run_trials(study: Study, out: TextIO) -> list[Failure]:
    from experiments.study.progress import Progress

    placement = place(study, available_nodes(study.parallel_trials))
    _warn_no_meter(study, placement, out)
    progress = Progress(study.rounds, len(study.trials), max(len(trial.name) for trial in study.trials), out)
    tuner = _tuner(study, progress, placement)
    try:
        failures = [failure for result in tuner.fit() if (failure := failure_of(result))]
        if progress.disk_full:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(study.results_dir))
        return failures
    except KeyboardInterrupt:
        progress.keep_errors()
        raise
    finally:
        progress.close()
        add_warmup_energy(study.results_dir, progress.warmup_energy_j)


def _warn_no_meter(study: Study, placement: Placement, out: TextIO) -> None:
    """Prints one line if the energy meter cannot be read here; other nodes are assumed to be like this one."""
    from envs.training.energy_meter import open_meter

    device = "cuda:0" if placement.execution.gpus_per_actor else placement.execution.device
    _, why_not = open_meter(study.federation.get("energy_meter", FORMULA), device)
    if why_not:
        print(why_not, file=out, flush=True)


def _tuner(study: Study, progress: Progress, placement: Placement) -> Tuner:
    from ray import tune
    from ray.tune.search.basic_variant import BasicVariantGenerator

    from experiments.study.row_callback import ROLLING_ACCURACY
    from experiments.study.scheduler import InTurn, SeedwiseASHA, StudyEnd
    from experiments.study.trial import StudyTrial
    from experiments.study.trial_config import param_space

    journal = study.results_dir / JOURNAL_FILE
    return tune.Tuner(
        StudyTrial,
        param_space=param_space(study, placement),
        tune_config=tune.TuneConfig(
            search_alg=BasicVariantGenerator(max_concurrent=placement.side_by_side),
            scheduler=SeedwiseASHA(ROLLING_ACCURACY, study.rounds, journal) if study.search else InTurn(),
            reuse_actors=study.share_processes,
            trial_dirname_creator=_trial_name,
            trial_name_creator=_trial_name,
        ),
        run_config=tune.RunConfig(
            name=study.results_dir.name,
            storage_path=str(study.results_dir.parent),
            stop=StudyEnd(lambda: progress.disk_full),
            checkpoint_config=tune.CheckpointConfig(
                checkpoint_frequency=study.checkpoint_every, checkpoint_at_end=True, num_to_keep=2
            ),
            callbacks=[progress, *new_loggers(study.loggers, study.results_dir)],
            verbose=0,
        ),
    )


def _trial_name(trial: Any) -> str:
    return Trial(**trial.config["trial"]).name
