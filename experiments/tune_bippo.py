"""`python -m experiments.tune_bippo`: compare client selection methods on equal joules, or tune one. The command line."""

from __future__ import annotations

import argparse
import datetime
import os
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeVar

from experiments.methods import METHODS
from experiments.naming import look_up
from experiments.provenance import RUN_FILE, command_line
from experiments.report import build_report, write_report
from experiments.rows import ROWS_FILE
from experiments.scenarios import SCENARIOS
from experiments.settings import ENV_PREFIX, parse_search, parse_settings
from experiments.study import Failure, Study, check_study, run_study

T = TypeVar("T")

EXIT_FAILED_TRIALS = 1
EXIT_BAD_INPUT = 2
EXIT_INTERRUPTED = 130

DESCRIPTION = """\
Trains the clients of a simulated federation under an energy budget per round, once per method and seed, side by side
as a Ray Tune study, and prints how accurate each method gets and what it spends.
"""

EPILOG = """\
examples:
  python -m experiments.tune_bippo
      20 clients on scikit-learn's digits, bippo and fedavg, seeds 7, 28, 42; nothing to download, under 3 minutes on 2 cores
  python -m experiments.tune_bippo --scenario fashion-mnist --data-dir DIR --methods bippo ippo fedavg
      the paper's main experiment, 200 rounds; hours on 2 cores
  python -m experiments.tune_bippo --set lr=0.0005 epsilon_decay=0.95 env.budget_share=0.2
      other settings: keys of BippoConfig.training, or env. and a field of envs.FederationConfig
  python -m experiments.tune_bippo --methods bippo --search "lr=loguniform(1e-4,1e-2)" --num-samples 16
      tunes: Ray Tune's search spaces, ASHA stops settings that fall behind, the best one is named at the end
  python -m experiments.report RESULTS_DIR
      table and figure again, also while a study is running

data:
  digits comes with scikit-learn. For the others, --data-dir or $BIPPO_DATA is a folder with the original files, torchvision's
  layout or a folder of images per class.
"""


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m experiments.tune_bippo",
        description=DESCRIPTION,
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.error = _raise  # type: ignore[assignment]
    parser.add_argument("--list", action="store_true", help="show scenarios and methods, and stop")
    what = parser.add_argument_group("what to run")
    what.add_argument("--scenario", default="digits", metavar="NAME", help="default: digits")
    what.add_argument("--methods", nargs="+", metavar="NAME", help="default: bippo fedavg; with --search: bippo")
    what.add_argument("--seeds", nargs="+", type=int, default=[7, 28, 42], metavar="N", help="default: 7 28 42")
    what.add_argument("--rounds", type=int, metavar="N", help="FL rounds per trial; default: the scenario's")
    what.add_argument(
        "--set", nargs="+", action="extend", default=[], metavar="KEY=VALUE", help="other settings for all trials"
    )
    search = parser.add_argument_group("tuning")
    search.add_argument(
        "--search", nargs="+", action="extend", default=[], metavar="KEY=SPACE", help="search spaces, quoted"
    )
    search.add_argument("--num-samples", type=int, metavar="N", help="settings to draw; default: 8")
    where = parser.add_argument_group("where and how")
    where.add_argument("--data-dir", type=Path, metavar="DIR", help="where the data lies; default: $BIPPO_DATA")
    where.add_argument("--results-dir", type=Path, metavar="DIR", help="default: results/SCENARIO-DATE-TIME")
    where.add_argument("--parallel-trials", type=int, metavar="N", help="trials side by side; default: one per core")
    where.add_argument(
        "--checkpoint-every", type=int, default=50, metavar="N", help="in rounds; default: 50, and at the end"
    )
    return parser


def _raise(message: str) -> None:
    raise ValueError(f"{message}; see --help")


def study_of(arguments: argparse.Namespace, argv: Sequence[str]) -> Study:
    """The study that the arguments ask for. ValueError for what can be seen to be wrong without loading anything."""
    scenario = look_up("scenario", arguments.scenario, SCENARIOS)
    settings, search = parse_settings(arguments.set), parse_search(arguments.search)
    if arguments.num_samples is not None and not search:
        raise ValueError(
            '--num-samples without --search: name what to search, such as --search "lr=loguniform(1e-4,1e-2)"'
        )
    both = sorted(settings.keys() & search.keys())
    if both:
        raise ValueError(f"{both[0]} is in --set and in --search; leave it out of one")
    rounds = _positive("--rounds", arguments.rounds, scenario.rounds)
    return Study(
        scenario=scenario,
        methods=_methods(arguments.methods, search),
        seeds=_distinct("--seeds", arguments.seeds),
        rounds=rounds,
        results_dir=_results_dir(arguments.results_dir, scenario.name),
        data_dir=str(arguments.data_dir.expanduser().resolve()) if arguments.data_dir else None,
        settings=settings,
        search=search,
        num_samples=_positive("--num-samples", arguments.num_samples, 8) if search else 1,
        parallel_trials=_positive("--parallel-trials", arguments.parallel_trials, None),
        checkpoint_every=_positive("--checkpoint-every", arguments.checkpoint_every, 50),
        command=command_line("experiments.tune_bippo", argv),
    )


def _methods(names: Sequence[str] | None, search: dict[str, str]) -> tuple[str, ...]:
    methods = _distinct("--methods", names or (["bippo"] if search else ["bippo", "fedavg"]))
    for name in methods:
        learns = look_up("method", name, METHODS).learns
        if search and not learns and not any(key.startswith(ENV_PREFIX) for key in search):
            raise ValueError(
                f"{name} learns nothing, so searching {', '.join(search)} changes nothing; leave it out of --methods"
            )
    return methods


def _distinct(flag: str, values: Sequence[T]) -> tuple[T, ...]:
    repeated = [value for index, value in enumerate(values) if value in values[:index]]
    if repeated:
        raise ValueError(f"{flag} has {repeated[0]} twice; the two trials would be the same, name each one once")
    negative = [value for value in values if isinstance(value, int) and value < 0]
    if negative:
        raise ValueError(f"{flag} has {negative[0]}; seeds are whole numbers from 0")
    return tuple(values)


def _positive(flag: str, value: int | None, default: T) -> int | T:
    if value is None:
        return default
    if value < 1:
        raise ValueError(f"{flag} is {value}; it must be at least 1")
    return value


def _results_dir(asked: Path | None, scenario: str) -> Path:
    """An absolute path to a folder that can be written and holds no other run."""
    stamp = datetime.datetime.now().strftime("%Y%m%d-%H%M%S")
    path = (asked or Path("results") / f"{scenario}-{stamp}").expanduser().resolve()
    if path.exists() and not path.is_dir():
        raise ValueError(f"results folder {path} is a file; name a folder")
    if (path / RUN_FILE).exists() or (path.exists() and next(path.rglob(ROWS_FILE), None)):
        raise ValueError(f"results folder {path} already holds a run; name another one, or remove it first")
    existing = next(folder for folder in (path, *path.parents) if folder.exists())
    try:
        with tempfile.TemporaryFile(dir=existing):
            pass
    except OSError as error:
        raise ValueError(
            f"results folder {path} cannot be written: {error.strerror} in {existing}; name another one"
        ) from None
    return path


def listing() -> str:
    """Scenarios and methods, a line each."""
    width = max(len(name) for name in (*SCENARIOS, *METHODS))
    scenarios = [f"  {s.name:<{width}}  {s.description}; {s.rounds} rounds" for s in SCENARIOS.values()]
    methods = [f"  {method.name:<{width}}  {method.description}" for method in METHODS.values()]
    return "\n".join(["scenarios", *scenarios, "", "methods", *methods])


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command; returns the exit code (0, 1 failed trials, 2 bad input, 130 interrupted)."""
    argv = sys.argv[1:] if argv is None else argv
    try:
        arguments = _parser().parse_args(argv)
        if arguments.list:
            print(listing())
            return 0
        study = study_of(arguments, argv)
        check_study(study)
    except (ValueError, OSError) as error:
        print(f"error: {_one_line(error)}", file=sys.stderr)
        return EXIT_BAD_INPUT
    return _run(study)


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split())


def _run(study: Study) -> int:
    print(_announcement(study), flush=True)
    try:
        failures = run_study(study)
    except KeyboardInterrupt:
        print(f"\ninterrupted; every finished round is kept in {_short(study.results_dir)}", file=sys.stderr)
        _finish(study, _print_report)
        return EXIT_INTERRUPTED
    _finish(study, _print_report)
    for failure in failures:
        print(_failure_line(failure), file=sys.stderr)
    return EXIT_FAILED_TRIALS if failures else 0


def _announcement(study: Study) -> str:
    trials = f"{len(study.methods)} method{'s' * (len(study.methods) > 1)} x {len(study.seeds)} seed{'s' * (len(study.seeds) > 1)}"
    samples = f" x {study.num_samples} settings" if study.search else ""
    return (
        f"{study.scenario.name}: {study.scenario.description}\n"
        f"{', '.join(study.methods)}: {trials}{samples} = {study.num_trials} trials of {study.rounds} rounds, "
        f"results in {_short(study.results_dir)}\n"
    )


def _finish(study: Study, act: Callable[[Study], None]) -> None:
    """A study whose rows cannot be reported must still say what failed."""
    try:
        act(study)
    except (ValueError, OSError) as error:
        print(f"error: no report: {_one_line(error)}", file=sys.stderr)


def _print_report(study: Study) -> None:
    report = build_report(study.results_dir)
    path, figure = write_report(report, study.results_dir)
    folder = _short(study.results_dir)
    print(f"\n{report.text()}\n")
    if study.search:
        print(f"best setting   {report.summaries[0].label}\n")
    print(f"rows           {folder}/*/{ROWS_FILE}")
    print(f"figure         {_short(figure)} (and .svg)")
    print(f"report         {_short(path)}")
    print(f"checkpoints    {folder}/*/checkpoint_*")
    print(f"TensorBoard    tensorboard --logdir {folder}")


def _failure_line(failure: Failure) -> str:
    return f"error: trial {failure.trial} failed: {failure.cause} (whole traceback: {_short(Path(failure.error_file))})"


def _short(path: Path) -> str:
    """Relative to the working directory where that is shorter."""
    relative = os.path.relpath(path)
    return relative if len(relative) < len(str(path)) else str(path)


if __name__ == "__main__":
    sys.exit(main())
