"""``bippo tune``: the command line that compares client selection methods on equal joules."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from contextlib import ExitStack

from experiments.cli import EXIT_FAILED, EXIT_INTERRUPTED, collect_rarely, one_line, print_on_any_terminal, refuse
from experiments.methods import METHODS
from experiments.results.files import study_lock
from experiments.results.rows import ROWS_FILE
from experiments.results.run_info import RUN_FILE
from experiments.results.setting_text import describe
from experiments.scenarios import OTHER_COMMANDS, SCENARIOS
from experiments.study import messages
from experiments.study.arguments import parser, study_of
from experiments.study.checks import check_study, fitted
from experiments.study.failure import Failure, is_disk_full
from experiments.study.interrupts import ignore_interrupts, signals_restored, terminate_as_interrupt
from experiments.study.loggers import check_reachable
from experiments.study.ray_session import quiet, ray_ended, start_beside_imports
from experiments.study.ray_watch import ray_watched
from experiments.study.results_folder import holds_a_run
from experiments.study.resume import ready
from experiments.study.run import run_study
from experiments.study.settings import as_typed
from experiments.study.study import Study

LOADING = "checking settings and loading data ..."


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
    print(messages.announcement(study), flush=True)
    messages.print_notes(study)
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
        print(messages.failure_line(failure), file=sys.stderr)
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
            messages.print_notes(study)
        if not study.trials:
            return []
        with ray_watched(lambda error: messages.print_ended(study, error)):
            return run_study(study)
    except KeyboardInterrupt:
        ignore_interrupts()
        print(
            f"\ninterrupted; what was written until now is kept in {messages.short(study.results_dir)}", file=sys.stderr
        )
        print(f"resume with: {messages.resume_command(study)}", file=sys.stderr, flush=True)
        raise
    except Exception as error:
        if not isinstance(error, OSError) and not is_disk_full(error):
            raise
        messages.print_ended(study, error)
        raise OSError from error


def _report(study: Study) -> int:
    """Prints and writes the report if there are rows; returns the exit code, which failed trials do not change."""
    if not any(study.results_dir.rglob(ROWS_FILE)):
        return 0
    try:
        _print_report(study)
    except KeyboardInterrupt:
        folder = messages.quoted(study.results_dir)
        print(f"\ninterrupted while reporting; run: bippo report {folder}", file=sys.stderr)
        return EXIT_INTERRUPTED
    except (ValueError, OSError) as error:
        print(f"error: no report: {one_line(error)}", file=sys.stderr)
        return EXIT_FAILED
    return 0


def _print_report(study: Study) -> None:
    from experiments.report.report_md import write_report
    from experiments.report.summary import build_report  # matplotlib takes its time

    report = build_report(study.results_dir)
    path, figure = write_report(report, study.results_dir)
    folder = messages.short(study.results_dir)
    print(f"\n{report.text()}\n")
    if study.search:
        messages.print_best_setting(study, [(summary.method, summary.setting) for summary in report.summaries])
    for name, pattern in (("rows", ROWS_FILE), ("checkpoints", "checkpoint_*")):
        if any(study.results_dir.glob(f"*/{pattern}")):
            print(f"{name:<15}{folder}/*/{pattern}")
    print(f"TensorBoard    tensorboard --logdir {messages.quoted(study.results_dir)}")
    print(f"figures        {messages.short(figure.parent)}/*.png (and .svg)")
    print(f"report         {messages.short(path)}")


if __name__ == "__main__":
    sys.exit(main())
