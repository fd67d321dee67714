"""``bippo tune``: the command line that compares client selection methods on equal joules."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

from envs.checks import printable
from experiments.cli import (
    EXIT_FAILED,
    EXIT_INTERRUPTED,
    collect_rarely,
    one_line,
    print_on_any_terminal,
    refuse,
)
from experiments.methods import METHODS
from experiments.results.checkpoints import finished
from experiments.results.files import study_lock
from experiments.results.naming import pluralize
from experiments.results.rows import ROWS_FILE
from experiments.results.run_info import RUN_FILE
from experiments.results.setting_text import describe, described
from experiments.scenarios import OTHER_COMMANDS, SCENARIOS
from experiments.study.arguments import parser, study_of
from experiments.study.asha_journal import stopped_trials
from experiments.study.checks import check_study, fitted
from experiments.study.failure import ERROR_FILE, Failure, full_disk_message, is_disk_full
from experiments.study.interrupts import ignore_interrupts, signals_restored, terminate_as_interrupt
from experiments.study.loggers import check_reachable
from experiments.study.ray_session import quiet, ray_ended, start_beside_imports
from experiments.study.ray_watch import ray_watched
from experiments.study.results_folder import holds_a_run
from experiments.study.resume import ready
from experiments.study.run import run_study
from experiments.study.settings import as_typed, split_settings
from experiments.study.study import Study

LOADING = "checking settings and loading data ..."
RANKING = "rounds of the shortest trial of a setting (ASHA stops what falls behind), then mean accuracy over seeds"


def listing() -> str:
    """Returns the scenarios and methods, a line each."""
    width = max(len(name) for name in (*SCENARIOS, *METHODS, *OTHER_COMMANDS))
    scenarios = [f"  {s.name:<{width}}  {s.description}; {s.rounds} rounds" for s in SCENARIOS.values()]
    methods = [f"  {method.name:<{width}}  {method.description}" for method in METHODS.values()]
    custom = f"  {'MODULE:NAME':<{width}}  your own: a function that returns a BippoConfig, see docs/your-own.md"
    commands = [f"  {name:<{width}}  {command}: {what}" for name, (command, what) in OTHER_COMMANDS.items()]
    return "\n".join(["scenarios", *scenarios, "", "methods", *methods, custom, "", "commands of their own", *commands])


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the command; returns the exit code (0, 1 failed trials, 2 bad input, 130 interrupted)."""
    print_on_any_terminal()
    if argv is None:
        collect_rarely()
    with signals_restored():
        terminate_as_interrupt()
        try:
            return _main(sys.argv[1:] if argv is None else argv, is_process=argv is None)
        except KeyboardInterrupt:
            print("\ninterrupted before anything was run", file=sys.stderr)
            return EXIT_INTERRUPTED


def _main(argv: Sequence[str], is_process: bool) -> int:
    """Runs the command; starts Ray early if the process does nothing else."""
    try:
        arguments = parser().parse_args(argv)
    except ValueError as error:
        return refuse(error)
    with ExitStack() as session:
        try:
            if arguments.list:
                print(listing())
                return 0
            study = study_of(arguments, argv)
            if arguments.trust_code and study.custom_code:
                print(f"{RUN_FILE} names code, which is trusted: {', '.join(study.custom_code)}")
            print(LOADING, flush=True)  # imports and data take seconds
            session.enter_context(ray_ended())
            if is_process and study.trials and study.execution.executor != "ray":
                start_beside_imports(study.parallel_trials, len(study.trials))
            quiet()
            given, study = study.settings, fitted(study)
            if follows := {key: value for key, value in study.settings.items() if key not in given}:
                print(f"follows from the data: {describe(follows)}", flush=True)
            check_study(study)
            lock = _locked(study)
        except Exception as error:  # nothing has run yet, so that the arguments are to blame
            return refuse(as_typed(error))
        with lock:
            return _run(study, session)


def _locked(study: Study) -> ExitStack:
    """Locks the results folder; another study may have used it since the arguments were read."""
    with ExitStack() as held:
        held.enter_context(study_lock(study.results_dir))
        if not study.is_resumed and (study.results_dir / RUN_FILE).exists():
            raise ValueError(holds_a_run(study.results_dir))
        check_reachable(study.loggers, study.results_dir)
        return held.pop_all()


def _run(study: Study, session: ExitStack) -> int:
    """Runs the study, ends Ray's ``session`` and reports; returns the exit code."""
    print(_announcement(study), flush=True)
    _print_notes(study)
    try:
        with signals_restored(), session:
            failures = _failures(study)
    except KeyboardInterrupt:
        _report(study)
        return EXIT_INTERRUPTED
    except OSError:
        return EXIT_FAILED
    code = _report(study)
    for failure in failures:
        print(_failure_line(failure), file=sys.stderr)
    return code or (EXIT_FAILED if failures else 0)


def _failures(study: Study) -> list[Failure]:
    """Runs the study; prints how to resume one that ended early before Ray ends, which a signal may cut short.

    Raises:
        KeyboardInterrupt: If it was interrupted.
        OSError: If it ended early since Ray did, or since the disk is full.
    """
    try:
        if study.is_resumed:
            study = ready(study)
            _print_notes(study)
        if not study.trials:
            return []
        with ray_watched(lambda error: _print_ended(study, error)):
            return run_study(study)
    except KeyboardInterrupt:
        ignore_interrupts()
        print(f"\ninterrupted; what was written until now is kept in {_short(study.results_dir)}", file=sys.stderr)
        print(f"resume with: {_resume_command(study)}", file=sys.stderr, flush=True)
        raise
    except Exception as error:
        if not isinstance(error, OSError) and not is_disk_full(error):
            raise
        _print_ended(study, error)
        raise OSError from error


def _print_ended(study: Study, error: Exception) -> None:
    """Says why a study ended early, and how to resume it."""
    can_resume = (study.results_dir / RUN_FILE).exists()
    if is_disk_full(error):
        message = full_disk_message(study.results_dir, can_resume, _resume_command(study))
        print(f"error: {message}", file=sys.stderr)
        return
    folder = _short(study.results_dir)
    print(f"error: {one_line(error)}; the study in {folder} has ended early, its rows are kept", file=sys.stderr)
    if can_resume:
        print(f"resume with: {_resume_command(study)}", file=sys.stderr, flush=True)


def _print_notes(study: Study) -> None:
    for note in study.notes:
        print(f"note: {printable(note)}", file=sys.stderr, flush=True)


def _announcement(study: Study) -> str:
    factors = [pluralize(len(study.methods), "method"), pluralize(len(study.seeds), "seed")]
    factors += [pluralize(len(study.draws), "setting")] if study.search else []
    trials = f"{pluralize(len(study.trials), 'trial')} of {pluralize(study.rounds, 'round')}"
    if study.is_resumed:
        every = pluralize(len(study.all_trials), "trial")
        what = f"resuming {trials} (of {every})" if study.trials else f"nothing is left of {every}"
        return f"{study.scenario.name}: {what}, results in {_short(study.results_dir)}\n"
    # A description holds for the scenario's own federation only.
    about = "" if split_settings(study.settings)[1] else f": {study.scenario.description}"
    changed = f", with {printable(describe(study.settings))}" if study.settings else ""
    return (
        f"{study.scenario.name}{about}{changed}\n"
        f"{', '.join(study.methods)}: {' x '.join(factors)} = {trials}, results in {_short(study.results_dir)}\n"
        f"{_scenario_notes(study)}"
    )


def _scenario_notes(study: Study) -> str:
    """Returns what the scenario's description leaves out, a line each."""
    scenario = study.scenario
    notes = []
    if scenario.churn:
        scaled = f"; scaled from {scenario.rounds} rounds" if study.rounds != scenario.rounds else ""
        notes.append(f"churn: {scenario.describe_churn(study.rounds)}{scaled}")
    if study.init_from:
        trained = sorted({str(source) for source in study.initial_policies.values()} - {""})
        notes.append(f"policies from {_short(Path(study.init_from))}" + (f" ({'; '.join(trained)})" if trained else ""))
    elif scenario.pretrained_on:
        notes.append(f"policies from scratch; --init-from takes the results folder of a {scenario.pretrained_on} study")
    return "".join(f"{note}\n" for note in notes)


def _report(study: Study) -> int:
    """Prints and writes the report if there are rows; returns the exit code, which failed trials do not change."""
    if not any(study.results_dir.rglob(ROWS_FILE)):
        return 0
    try:
        _print_report(study)
    except KeyboardInterrupt:
        folder = _quoted(study.results_dir)
        print(f"\ninterrupted while reporting; run: bippo report {folder}", file=sys.stderr)
        return EXIT_INTERRUPTED
    except (ValueError, OSError) as error:
        print(f"error: no report: {one_line(error)}", file=sys.stderr)
        return EXIT_FAILED
    return 0


def _print_report(study: Study) -> None:
    from experiments.report.report import build_report  # matplotlib takes its time
    from experiments.report.sections import write_report

    report = build_report(study.results_dir)
    path, figure = write_report(report, study.results_dir)
    folder = _short(study.results_dir)
    quoted = _quoted(study.results_dir)
    print(f"\n{report.text()}\n")
    if study.search:
        _print_best_setting(study, [(summary.method, summary.setting) for summary in report.summaries])
    for name, pattern in (("rows", ROWS_FILE), ("checkpoints", "checkpoint_*")):
        if any(study.results_dir.glob(f"*/{pattern}")):
            print(f"{name:<15}{folder}/*/{pattern}")
    print(f"TensorBoard    tensorboard --logdir {quoted}")
    print(f"figures        {_short(figure.parent)}/*.png (and .svg)")
    print(f"report         {_short(path)}")


def _print_best_setting(study: Study, ranked: Sequence[tuple[str, str]]) -> None:
    """Prints the best method and setting that did not fail in all trials, given all of them from the best down."""
    stopped = stopped_trials(study.results_dir)
    going: dict[tuple[str, str], bool] = {}
    for trial in study.all_trials:
        folder = study.results_dir / trial.name
        failed = (folder / ERROR_FILE).exists() and not finished(folder, stopped.get(trial.name, study.rounds))
        key = trial.method, describe(trial.search)
        going[key] = going.get(key, False) or not failed
    best = next((key for key in ranked if going.get(key)), None)
    if best is None:
        print("best setting   none, since all trials have failed\n")
        return
    settings = [f"{key}={value}" for key, value in described(best[1]).items()]
    print(f"best setting   {shlex.join(['--methods', best[0], '--set', *settings])}")
    print(f"ranked by      {RANKING}\n")


def _failure_line(failure: Failure) -> str:
    return f"error: trial {failure.trial} failed: {failure.cause} (whole traceback: {_short(Path(failure.error_file))})"


def _resume_command(study: Study) -> str:
    trusted = " --trust-code" if study.custom_code else ""
    return f"bippo tune --resume {_quoted(study.results_dir)}{trusted}"


def _quoted(path: Path) -> str:
    """The path for a shell."""
    return shlex.quote(_short(path))


def _short(path: Path) -> str:
    """The path in one line, relative if it is below the working directory."""
    folder = Path.cwd()
    return printable(path.relative_to(folder) if path.is_relative_to(folder) else path)


if __name__ == "__main__":
    sys.exit(main())
