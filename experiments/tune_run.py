"""Running a study with Ray Tune: trials side by side, quietly, and what is left of those that fail."""

from __future__ import annotations

import logging
import os
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

from experiments.placement import RAY_ADDRESS, Placement, local_cpus, nodes_for, place
from experiments.provenance import add_resumption, add_warmup_energy, write_run_info
from experiments.study import Study, TrialStart, param_space

if TYPE_CHECKING:
    from ray.tune import ResultGrid, Tuner

    from experiments.progress import Progress


@dataclass(frozen=True)
class Failure:
    """A trial that did not finish: its cause in one line, and the file with the whole traceback."""

    trial: str
    cause: str
    error_file: str


def quiet() -> None:
    """Turn off what Tune and RLlib print by themselves; `Progress` and the report say it shorter."""
    os.environ["RAY_AIR_NEW_OUTPUT"] = "0"
    os.environ["TUNE_PRINT_ALL_TRIAL_ERRORS"] = "0"
    os.environ["TUNE_DISABLE_SIGINT_HANDLER"] = "1"
    import ray.rllib  # noqa: F401  (its import sets its logger's level)

    for name in ("ray.tune", "ray.train", "ray.rllib"):
        logging.getLogger(name).setLevel(logging.CRITICAL)


def run_study(study: Study, out: TextIO | None = None) -> list[Failure]:
    """Run all trials and return those that failed; rows and run.json are in `study.results_dir` whatever happens."""
    quiet()
    import ray

    study.results_dir.mkdir(parents=True, exist_ok=True)
    if study.starts is None:
        write_run_info(study.results_dir, study.run_info)
    else:
        add_resumption(study.results_dir)
    started_ray = start_ray(study.parallel_trials)
    try:
        return _run_trials(study, out or sys.stdout)
    finally:
        if started_ray:
            ray.shutdown()


def start_ray(parallel_trials: int | None) -> bool:
    """Start Ray quietly and without a dashboard, or connect to the cluster of `$RAY_ADDRESS`, unless it runs already.

    True if this call started it.
    """
    import ray

    if ray.is_initialized():
        return False
    address = os.environ.get(RAY_ADDRESS)
    ray.init(
        address or "local",
        num_cpus=None if address else local_cpus(parallel_trials),
        include_dashboard=False,
        log_to_driver=False,
        logging_level=logging.ERROR,
        runtime_env={"env_vars": {"OMP_NUM_THREADS": "1"}},
    )
    return True


def _run_trials(study: Study, out: TextIO) -> list[Failure]:
    from experiments.progress import Progress

    placement = place(study, nodes_for(study.parallel_trials))
    progress = Progress(study.rounds, study.num_trials, max(map(len, study.trial_names)), out)
    tuner = _tuner(study, progress, placement)
    try:
        return _failures(tuner.fit())
    except KeyboardInterrupt:
        progress.keep_logs()
        raise
    finally:
        progress.close()
        add_warmup_energy(study.results_dir, progress.warmup_energy_j)


def _tuner(study: Study, progress: Progress, placement: Placement) -> Tuner:
    from ray import tune
    from ray.tune.search.basic_variant import BasicVariantGenerator

    from experiments.row_callback import ROLLING_ACCURACY
    from experiments.scheduler import SeedwiseASHA
    from experiments.trial import StudyTrial

    return tune.Tuner(
        StudyTrial,
        param_space=param_space(study, placement),
        tune_config=tune.TuneConfig(
            # One draw of the searched settings per sample, shared by all methods and seeds; the same draws every time.
            search_alg=BasicVariantGenerator(
                max_concurrent=placement.side_by_side, constant_grid_search=True, random_state=study.seeds[0]
            ),
            num_samples=study.num_samples,
            scheduler=SeedwiseASHA(ROLLING_ACCURACY, study.rounds) if study.search else None,
            trial_dirname_creator=_trial_name(bool(study.search)),
            trial_name_creator=_trial_name(bool(study.search)),
        ),
        run_config=tune.RunConfig(
            name=study.results_dir.name,
            storage_path=str(study.results_dir.parent),
            stop={"round": study.rounds},
            checkpoint_config=tune.CheckpointConfig(
                checkpoint_frequency=study.checkpoint_every, checkpoint_at_end=True, num_to_keep=2
            ),
            callbacks=[progress],
            verbose=0,
        ),
    )


def _trial_name(searching: bool) -> Any:
    def name(trial: Any) -> str:
        plain = TrialStart(**trial.config["trial"]).name
        return f"{plain}-{trial.trial_id.rsplit('_', 1)[-1]}" if searching else plain

    return name


def _failures(results: ResultGrid) -> list[Failure]:
    return [
        Failure(Path(result.path).name, root_cause(str(result.error)), str(Path(result.path) / "error.txt"))
        for result in results
        if result.error is not None
    ]


def root_cause(traceback: str) -> str:
    """The first exception of a chain of tracebacks, in one line: what went wrong before anything else did."""
    lines = [line.strip() for line in traceback.splitlines()]
    causes = [line for line in lines if _is_exception_line(line)]
    return causes[0] if causes else (lines[-1] if lines else "unknown")


def _is_exception_line(line: str) -> bool:
    name, colon, _ = line.partition(": ")
    return bool(colon) and name.replace(".", "").isidentifier() and name.endswith(("Error", "Exception", "Interrupt"))
