"""What ``bippo tune`` says about a study: what is run, why it ended, how to resume it, which setting is best."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Sequence
from pathlib import Path

from envs.checks import printable
from experiments.cli import one_line
from experiments.results.checkpoints import finished
from experiments.results.naming import pluralize
from experiments.results.run_info import RUN_FILE
from experiments.results.setting_text import describe, described
from experiments.study.asha_journal import stopped_trials
from experiments.study.failure import ERROR_FILE, Failure, full_disk_message, is_disk_full
from experiments.study.settings import split_settings
from experiments.study.study import Study

_RANKING = "rounds of the shortest trial of a setting (ASHA stops what falls behind), then mean accuracy over seeds"


def announcement(study: Study) -> str:
    """Returns what is run, and where the results are."""
    factors = [pluralize(len(study.methods), "method"), pluralize(len(study.seeds), "seed")]
    factors += [pluralize(len(study.draws), "setting")] if study.search else []
    trials = f"{pluralize(len(study.trials), 'trial')} of {pluralize(study.rounds, 'round')}"
    if study.is_resumed:
        every = pluralize(len(study.all_trials), "trial")
        what = f"resuming {trials} (of {every})" if study.trials else f"nothing is left of {every}"
        return f"{study.scenario.name}: {what}, results in {short(study.results_dir)}\n"
    # A description holds for the scenario's own federation only.
    about = "" if split_settings(study.settings)[1] else f": {study.scenario.description}"
    changed = f", with {printable(describe(study.settings))}" if study.settings else ""
    return (
        f"{study.scenario.name}{about}{changed}\n"
        f"{', '.join(study.methods)}: {' x '.join(factors)} = {trials}, results in {short(study.results_dir)}\n"
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
        notes.append(f"policies from {short(Path(study.init_from))}" + (f" ({'; '.join(trained)})" if trained else ""))
    elif scenario.pretrained_on:
        notes.append(f"policies from scratch; --init-from takes the results folder of a {scenario.pretrained_on} study")
    return "".join(f"{note}\n" for note in notes)


def print_notes(study: Study) -> None:
    """Prints the notes of a resumed or repeated study."""
    for note in study.notes:
        print(f"note: {printable(note)}", file=sys.stderr, flush=True)


def print_ended(study: Study, error: Exception) -> None:
    """Prints why a study ended early, and how to resume it."""
    can_resume = (study.results_dir / RUN_FILE).exists()
    if is_disk_full(error):
        message = full_disk_message(study.results_dir, can_resume, resume_command(study))
        print(f"error: {message}", file=sys.stderr)
        return
    folder = short(study.results_dir)
    print(f"error: {one_line(error)}; the study in {folder} has ended early, its rows are kept", file=sys.stderr)
    if can_resume:
        print(f"resume with: {resume_command(study)}", file=sys.stderr, flush=True)


def print_best_setting(study: Study, ranked: Sequence[tuple[str, str]]) -> None:
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
    print(f"ranked by      {_RANKING}\n")


def failure_line(failure: Failure) -> str:
    """Returns why a trial failed, and where the whole traceback is."""
    return f"error: trial {failure.trial} failed: {failure.cause} (whole traceback: {short(Path(failure.error_file))})"


def resume_command(study: Study) -> str:
    """Returns the command that resumes a study."""
    trusted = " --trust-code" if study.custom_code else ""
    return f"bippo tune --resume {quoted(study.results_dir)}{trusted}"


def quoted(path: Path) -> str:
    """Returns the path for a shell."""
    return shlex.quote(short(path))


def short(path: Path) -> str:
    """Returns the path in one line, relative if it is below the working directory."""
    folder = Path.cwd()
    return printable(path.relative_to(folder) if path.is_relative_to(folder) else path)
