"""The arguments of `python -m experiments.tune_bippo`, and the study they ask for."""

from __future__ import annotations

import argparse
import datetime
from collections.abc import Sequence
from pathlib import Path
from typing import Any, TypeVar

from experiments.methods import METHODS
from experiments.results.files import check_writable
from experiments.results.naming import look_up
from experiments.results.rows import ROWS_FILE
from experiments.results.run_info import RUN_FILE, command_line
from experiments.scenarios import ELSEWHERE, SCENARIOS
from experiments.study.resume import study_to_resume
from experiments.study.settings import ENV_PREFIX, parse_search, parse_settings
from experiments.study.study import Study, TrialStart
from experiments.study.transfer import find_sources

T = TypeVar("T")
TRACE = f"{ENV_PREFIX}churn_trace"

DESCRIPTION = """\
Trains the clients of a simulated federation under an energy budget per round, once per method and seed, side by side
as a Ray Tune study, and prints how accurate each method gets and what it spends.
"""

EPILOG = """\
examples:
  python -m experiments.tune_bippo
      20 clients on scikit-learn's digits, bippo and fedavg, seeds 7, 28, 42; one to two minutes on 2 cores
  python -m experiments.tune_bippo --scenario fashion-mnist --data-dir DIR --methods bippo ippo fedavg
      the paper's main experiment, 200 rounds; hours on 2 cores
  python -m experiments.tune_bippo --set lr=0.0005 epsilon_decay=0.95 env.budget_share=0.2
      other settings: keys of BippoConfig.training, or env. and a field of envs.FederationConfig
  python -m experiments.tune_bippo --methods bippo --search "lr=loguniform(1e-4,1e-2)" --num-samples 16
      tunes: Ray Tune's search spaces, ASHA stops settings that fall behind, the best one is named at the end
  python -m experiments.tune_bippo --scenario transfer-small --methods bippo ippo --init-from RESULTS_DIR
      starts from the policies of an earlier study with the same clients, each from its own method's and seed's
  python -m experiments.tune_bippo --executor ray --num-actors 2
      clients train in two Ray actors per trial; with GPUs each gets its share of one (docs/cluster.md)
  python -m experiments.tune_bippo --resume RESULTS_DIR
      goes on after a crash, a kill or Ctrl-C; the rows are those of an undisturbed run. A search goes on too
  python -m experiments.report RESULTS_DIR
      table and figure again, also while a study is running

data:
  digits comes with scikit-learn. For the others, --data-dir or $BIPPO_DATA is a folder with the original files,
  torchvision's layout or a folder of images per class.
"""


def parser() -> argparse.ArgumentParser:
    result = argparse.ArgumentParser(
        prog="python -m experiments.tune_bippo",
        description=DESCRIPTION,
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    result.error = _raise  # type: ignore[assignment]
    result.add_argument("--list", action="store_true", help="show scenarios and methods, and stop")
    what = result.add_argument_group("what to run")
    what.add_argument("--scenario", default="digits", metavar="NAME", help="default: digits")
    what.add_argument(
        "--methods", nargs="+", metavar="NAME", help="default: bippo fedavg; with --search or --init-from: bippo"
    )
    what.add_argument("--seeds", nargs="+", type=int, default=[7, 28, 42], metavar="N", help="default: 7 28 42")
    what.add_argument("--rounds", type=int, metavar="N", help="FL rounds per trial; default: the scenario's")
    what.add_argument(
        "--set", nargs="+", action="extend", default=[], metavar="KEY=VALUE", help="other settings for all trials"
    )
    what.add_argument(
        "--init-from",
        type=Path,
        metavar="CHECKPOINT",
        help="start from policies trained before, with the same clients: a results folder (each trial takes those of "
        "its method and seed), a trial's folder or a checkpoint; epsilon starts at its minimum",
    )
    search = result.add_argument_group("tuning")
    search.add_argument(
        "--search", nargs="+", action="extend", default=[], metavar="KEY=SPACE", help="search spaces, quoted"
    )
    search.add_argument("--num-samples", type=int, metavar="N", help="settings to draw; default: 8")
    _add_where_and_who(result)
    return result


def _add_where_and_who(result: argparse.ArgumentParser) -> None:
    """Where it runs, who trains and going on: what does not change the rows."""
    where = result.add_argument_group("where and how")
    where.add_argument("--data-dir", type=Path, metavar="DIR", help="where the data lies; default: $BIPPO_DATA")
    where.add_argument("--results-dir", type=Path, metavar="DIR", help="default: results/SCENARIO-DATE-TIME")
    where.add_argument("--parallel-trials", type=int, metavar="N", help="trials side by side; default: one per core")
    where.add_argument(
        "--checkpoint-every", type=int, default=10, metavar="N", help="in rounds; default: 10, and at the end"
    )
    who = result.add_argument_group("who trains the clients; the rows are the same on CPU")
    who.add_argument(
        "--executor",
        metavar="NAME",
        help="serial (in the trial), ray (Ray actors) or auto (Ray actors where the cluster has GPUs); default: auto",
    )
    who.add_argument("--num-actors", type=int, metavar="N", help="actors of a trial; default: one per GPU, or 2")
    who.add_argument("--cpus-per-actor", type=float, metavar="X", help="cores of an actor; default: 1")
    who.add_argument("--gpus-per-actor", type=float, metavar="X", help="GPU share of an actor; default: an equal share")
    again = result.add_argument_group("going on with an interrupted study")
    again.add_argument(
        "--resume", type=Path, metavar="RESULTS_DIR", help="run what is not finished, from the last checkpoints"
    )
    again.add_argument(
        "--force", action="store_true", help="although the scenario, a churn trace or a package has changed"
    )


def _raise(message: str) -> None:
    raise ValueError(f"{message}; see --help")


def study_of(arguments: argparse.Namespace, argv: Sequence[str]) -> Study:
    """The study that the arguments ask for. ValueError for what can be seen to be wrong without loading anything."""
    if arguments.resume:
        return _study_to_resume(arguments)
    if arguments.force:
        raise ValueError("--force without --resume: it only says that changes since an interrupted study do not matter")
    if arguments.scenario in ELSEWHERE:
        raise ValueError(f"{arguments.scenario} is a command of its own: {ELSEWHERE[arguments.scenario][0]}")
    scenario = look_up("scenario", arguments.scenario, SCENARIOS)
    settings, search = _with_whole_paths(parse_settings(arguments.set)), parse_search(arguments.search)
    if arguments.num_samples is not None and not search:
        raise ValueError(
            '--num-samples without --search: name what to search, such as --search "lr=loguniform(1e-4,1e-2)"'
        )
    both = sorted(settings.keys() & search.keys())
    if both:
        raise ValueError(f"{both[0]} is in --set and in --search; leave it out of one")
    rounds = _positive("--rounds", arguments.rounds, scenario.rounds)
    init_from = arguments.init_from.expanduser().resolve() if arguments.init_from else None
    methods, seeds = _methods(arguments.methods, search, init_from), _distinct("--seeds", arguments.seeds)
    trials = [(TrialStart(method, seed).name, method, seed) for method in methods for seed in seeds]
    return Study(
        scenario=scenario,
        methods=methods,
        seeds=seeds,
        rounds=rounds,
        results_dir=_results_dir(arguments.results_dir, scenario.name),
        data_dir=_data_dir(arguments),
        settings=settings,
        search=search,
        num_samples=_positive("--num-samples", arguments.num_samples, 8) if search else 1,
        parallel_trials=_positive("--parallel-trials", arguments.parallel_trials, None),
        checkpoint_every=_positive("--checkpoint-every", arguments.checkpoint_every, 10),
        execution=_execution(arguments),
        command=command_line("experiments.tune_bippo", argv),
        init_from=str(init_from or ""),
        sources=find_sources(init_from, trials) if init_from else {},
    )


def _study_to_resume(arguments: argparse.Namespace) -> Study:
    fixed = ("scenario", "methods", "seeds", "rounds", "set", "search", "num_samples", "results_dir", "init_from")
    given = [name for name in fixed if getattr(arguments, name) != parser().get_default(name)]
    if given:
        flag = f"--{given[0].replace('_', '-')}"
        raise ValueError(f"--resume takes what to run from {RUN_FILE} in the results folder; leave out {flag}")
    return study_to_resume(
        arguments.resume.expanduser().resolve(),
        data_dir=_data_dir(arguments),
        parallel_trials=_positive("--parallel-trials", arguments.parallel_trials, None),
        checkpoint_every=_positive("--checkpoint-every", arguments.checkpoint_every, 10),
        execution=_execution(arguments),
        force=arguments.force,
    )


def _execution(arguments: argparse.Namespace) -> dict[str, Any]:
    """Who trains, as far as it was said."""
    names = ("executor", "num_actors", "cpus_per_actor", "gpus_per_actor")
    return {name: value for name in names if (value := getattr(arguments, name)) is not None}


def _data_dir(arguments: argparse.Namespace) -> str | None:
    return str(arguments.data_dir.expanduser().resolve()) if arguments.data_dir else None


def _methods(names: Sequence[str] | None, search: dict[str, str], init_from: Path | None) -> tuple[str, ...]:
    methods = _distinct("--methods", names or (["bippo"] if search or init_from else ["bippo", "fedavg"]))
    for name in methods:
        method = look_up("method", name, METHODS)
        if init_from and not method.learns:
            raise ValueError(
                f"{name} learns nothing, so starting from the policies in {init_from} changes nothing; "
                "leave it out of --methods"
            )
        if search and not method.learns and not any(k.startswith(ENV_PREFIX) or k in method.settings for k in search):
            raise ValueError(
                f"{name} learns nothing, so searching {', '.join(search)} changes nothing; leave it out of --methods"
            )
    return methods


def _distinct(flag: str, values: Sequence[T]) -> tuple[T, ...]:
    repeated = [value for index, value in enumerate(values) if value in values[:index]]
    if repeated:
        raise ValueError(f"{flag} has {repeated[0]} twice; the two trials would be the same, name each one once")
    beyond = [value for value in values if isinstance(value, int) and not 0 <= value < 2**32]
    if beyond:
        raise ValueError(f"{flag} has {beyond[0]}; seeds are whole numbers from 0 to 2**32 - 1")
    return tuple(values)


def _with_whole_paths(settings: dict[str, Any]) -> dict[str, Any]:
    """Trials run in folders of their own, and a study may be resumed from another one."""
    trace = settings.get(TRACE)
    return {**settings, TRACE: str(Path(trace).expanduser().resolve())} if isinstance(trace, str) else settings


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
    check_writable(path)
    if (path / RUN_FILE).exists() or (path.exists() and next(path.rglob(ROWS_FILE), None)):
        raise ValueError(f"results folder {path} already holds a run; name another one, or remove it first")
    return path
