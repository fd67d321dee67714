"""The arguments of ``bippo tune``, and the study that they define."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from itertools import chain
from typing import Any

from envs.imports import check_import, is_import
from envs.settings.execution import Execution
from experiments.argument_types import (
    absolute_path,
    add_data_dir,
    add_scenario,
    at_least,
    distinct,
    named_path,
    names,
    number,
    seeds,
    whole,
)
from experiments.cli import Parser
from experiments.custom_methods import look_up_method
from experiments.methods import METHODS
from experiments.results.run_info import RUN_FILE, command_line
from experiments.study.help_text import DESCRIPTION, EPILOG
from experiments.study.loggers import LOGGERS, check_installed
from experiments.study.recorded_study import study_to_repeat
from experiments.study.results_folder import new_results_dir
from experiments.study.resume import study_to_resume
from experiments.study.search import parse_search
from experiments.study.settings import ENV_PREFIX, parse_settings, with_absolute_trace
from experiments.study.study import Study, Trial, study_name
from experiments.study.transfer import find_sources

_DEFAULT_METHODS = ("bippo-s", "bippo", "fedavg")
_TUNED = ("bippo",)
_DEFAULT_SAMPLES = 8
#: An argument that takes several values and may be given more than once.
_SEVERAL: dict[str, Any] = {"nargs": "+", "action": "extend", "default": []}


def parser() -> Parser:
    """Returns the parser, which raises a ValueError in one line for bad arguments."""
    as_written = argparse.RawDescriptionHelpFormatter
    result = Parser(prog="bippo tune", description=DESCRIPTION, epilog=EPILOG, formatter_class=as_written)
    result.add_argument("--list", action="store_true", help="show scenarios and methods, and stop")
    _add_what_to_run(result.add_argument_group("what to run"))
    _add_search(result.add_argument_group("tuning"))
    _add_where(result.add_argument_group("where and how"))
    _add_execution(result.add_argument_group("executor of the clients' training; on CPU, rows are the same"))
    _add_resume(result.add_argument_group("resume or repeat"))
    return result


def _add_what_to_run(group: Any) -> None:
    add_scenario(group, default="digits")
    add = group.add_argument
    methods = (
        f"{', '.join(METHODS)} or your own MODULE:NAME; default: {' '.join(_DEFAULT_METHODS)}; "
        f"with --search or --init-from: {' '.join(_TUNED)}"
    )
    add("--methods", nargs="+", type=names, metavar="NAME", help=methods)
    some = "such as 1 2 3 or 1-10; default: 7 28 42"
    add("--seeds", nargs="+", type=seeds, default=[(7, 28, 42)], metavar="N", help=some)
    add("--rounds", type=at_least(1), metavar="N", help="FL rounds per trial; default: the scenario's")
    settings = (
        "other settings for all trials; `python -m pydoc bippo_rllib.BippoConfig.training` and `.selection` list "
        "the keys, `python -m pydoc envs.FederationConfig` the keys that begin with env."
    )
    add("--set", **_SEVERAL, metavar="KEY=VALUE", help=settings)
    callbacks = "RLlib callbacks of your own for all trials, such as to end one early (docs/your-own.md)"
    add("--callbacks", **_SEVERAL, type=names, metavar="MODULE:NAME", help=callbacks)
    init = (
        "start from trained policies of the same clients: a results folder (each trial takes the policies of its "
        "method and seed), a trial's folder or a checkpoint; epsilon starts at its minimum"
    )
    add("--init-from", type=absolute_path, metavar="CHECKPOINT", help=init)


def _add_search(group: Any) -> None:
    add, spaces = group.add_argument, "search spaces by key of --set, quoted"
    add("--search", **_SEVERAL, metavar="KEY=SPACE", help=spaces)
    add("--num-samples", type=at_least(1), metavar="N", help=f"settings to draw; default: {_DEFAULT_SAMPLES}")


def _add_resume(group: Any) -> None:
    add = group.add_argument
    resume = (
        "run unfinished trials from their last checkpoints; with --rounds, for so many rounds. Checkpoints are "
        "pickles, which can run any code: resume only studies that you trust"
    )
    add("--resume", type=absolute_path, metavar="RESULTS_DIR", help=resume)
    add("--config", type=absolute_path, metavar=RUN_FILE, help="repeat a recorded study in a new results folder")
    force = "even if something that rows depend on has changed, such as a package"
    add("--force", action="store_true", help=force)
    trust = f"import the custom code that {RUN_FILE} names as MODULE:NAME; without it the code is listed and not run"
    add("--trust-code", action="store_true", help=trust)


def _add_where(group: Any) -> None:
    add_data_dir(group)
    group.add_argument("--results-dir", type=named_path, metavar="DIR", help="default: results/SCENARIO-DATE-TIME")
    group.add_argument(
        "--parallel-trials", type=at_least(1), metavar="N", help="trials side by side; default: one per core"
    )
    group.add_argument(
        "--checkpoint-every", type=at_least(1), default=10, metavar="N", help="in rounds; default: 10, and at the end"
    )
    group.add_argument(
        "--logger",
        action="append",
        default=[],
        choices=LOGGERS,
        metavar="NAME",
        help=f"log to {' or '.join(LOGGERS)} as well, beside TensorBoard; may be given more than once",
    )


def _add_execution(group: Any) -> None:
    group.add_argument(
        "--executor",
        default="auto",
        metavar="NAME",  # choices are checked with the other fields
        help="serial (in the trial), ray (Ray actors) or auto (Ray actors where the cluster has GPUs); default: auto",
    )
    group.add_argument("--num-actors", type=whole, metavar="N", help="actors of a trial; default: one per GPU, or 2")
    group.add_argument("--cpus-per-actor", type=number, default=1.0, metavar="X", help="cores of an actor; default: 1")
    group.add_argument(
        "--gpus-per-actor", type=number, metavar="X", help="GPU share of an actor; default: an equal share"
    )


def study_of(arguments: argparse.Namespace, argv: Sequence[str]) -> Study:
    """Returns the study that the arguments define.

    Raises:
        ValueError: For an error that shows without loading data.
    """
    if arguments.resume or arguments.config:
        return _recorded(arguments, argv)
    settings, search = with_absolute_trace(parse_settings(arguments.set)), _search(arguments)
    _check_together(arguments, settings, search)
    scenario = arguments.scenario
    methods, all_seeds = _methods(arguments, search), distinct("--seeds", [*chain(*arguments.seeds)])
    trials = [(Trial(method, seed).name, method, seed) for method in methods for seed in all_seeds]
    return Study(
        scenario=scenario,
        methods=methods,
        seeds=all_seeds,
        rounds=arguments.rounds or scenario.rounds,
        results_dir=new_results_dir(arguments.results_dir, study_name(scenario, settings)),
        settings=settings,
        callbacks=_callbacks(arguments),
        search=search,
        num_samples=(arguments.num_samples or _DEFAULT_SAMPLES) if search else 1,
        command=command_line("bippo tune", argv),
        init_from=str(arguments.init_from or ""),
        initial_policies=find_sources(arguments.init_from, trials) if arguments.init_from else {},
        **_where_and_who(arguments),
    )


def _check_together(arguments: argparse.Namespace, settings: Mapping[str, Any], search: Mapping[str, str]) -> None:
    """Refuses arguments of a new study that contradict each other, or that nothing reads."""
    if arguments.force:
        raise ValueError("--force needs --resume or --config: it ignores changes since the recorded study")
    if arguments.trust_code:
        raise ValueError(f"--trust-code needs --resume or --config: it is for code that {RUN_FILE} names")
    if both := sorted(settings.keys() & search.keys()):
        raise ValueError(f"{both[0]} is in --set and in --search; leave it out of one")
    if arguments.data_dir and settings.get("env.dataset", arguments.scenario.federation["dataset"]) == "digits":
        raise ValueError(
            "--data-dir: digits comes with scikit-learn, so nothing reads it; leave it out, or name a scenario that "
            "does, such as --scenario image-folder"
        )


def _recorded(arguments: argparse.Namespace, argv: Sequence[str]) -> Study:
    flag, fixed = "--config", ["scenario", "methods", "seeds", "set", "callbacks", "search", "num_samples", "init_from"]
    if arguments.resume:
        flag, fixed = "--resume", [*fixed, "results_dir", "config"]
    else:
        fixed.append("rounds")
    given = [name for name in fixed if getattr(arguments, name) != parser().get_default(name)]
    if given:
        raise ValueError(f"{flag} takes what to run from {RUN_FILE}; leave out --{given[0].replace('_', '-')}")
    recorded = {**_where_and_who(arguments), "force": arguments.force, "trust_code": arguments.trust_code}
    if arguments.resume:
        return study_to_resume(arguments.resume, rounds=arguments.rounds, **recorded)
    command = command_line("bippo tune", argv)
    return study_to_repeat(arguments.config, arguments.results_dir, command, **recorded)


def _where_and_who(arguments: argparse.Namespace) -> dict[str, Any]:
    """Keywords of a study that do not change its rows, and so are not recorded."""
    check_installed(arguments.logger)
    return {
        "loggers": distinct("--logger", arguments.logger),
        "data_dir": str(arguments.data_dir) if arguments.data_dir else None,
        "parallel_trials": arguments.parallel_trials,
        "checkpoint_every": arguments.checkpoint_every,
        "execution": Execution(
            arguments.executor, arguments.num_actors, arguments.cpus_per_actor, arguments.gpus_per_actor
        ),
    }


def _search(arguments: argparse.Namespace) -> dict[str, str]:
    search = parse_search(arguments.search)
    if arguments.num_samples is not None and not search:
        raise ValueError(
            '--num-samples without --search: name what to search, such as --search "lr=loguniform(1e-4,1e-2)"'
        )
    return search


def _callbacks(arguments: argparse.Namespace) -> tuple[str, ...]:
    found = distinct("--callbacks", [*chain(*arguments.callbacks)])
    for name in found:
        check_import("--callbacks", name)
    return found


def _methods(arguments: argparse.Namespace, search: dict[str, str]) -> tuple[str, ...]:
    tuned = search or arguments.init_from
    methods = tuple(chain(*arguments.methods) if arguments.methods else _TUNED if tuned else _DEFAULT_METHODS)
    distinct("--methods", methods)
    for name in methods:
        if is_import(name):  # imported after all other checks, since that may take seconds
            check_import("--methods", name)
            continue
        method = look_up_method(name)
        if method.learns:
            continue
        if arguments.init_from:
            raise ValueError(
                f"{name} learns nothing, so starting from the policies in {arguments.init_from} changes nothing; "
                "leave it out of --methods"
            )
        if search and not any(key.startswith(ENV_PREFIX) or key in method.settings for key in search):
            raise ValueError(
                f"{name} learns nothing, so searching {', '.join(search)} changes nothing; leave it out of --methods"
            )
    return methods
