"""What a study was asked for and does not have: every missing or short trial by name, and trainings that failed."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import pandas as pd

from experiments.report.metrics import MethodSummary, summarize
from experiments.report.results import Results, Source
from experiments.results.naming import pluralize
from experiments.results.run_info import RunInfo
from experiments.study.asha_journal import stopped_trials

_MOST_LISTED = 10


def merged_shortfalls(results: Results, summaries: Sequence[MethodSummary]) -> list[str]:
    """Returns those of each folder, and in a merged report the methods that were asked for fewer seeds than others."""
    failed = failed_trainings(results.rows)
    if len(results.sources) == 1:
        return shortfalls(summaries, results.sources[0]) + failed
    lines = [line for source in results.sources for line in shortfalls(summarize(source.rows, results.target), source)]
    return [*lines, *_fewer_seeds(results.methods, results.infos), *failed]


def _fewer_seeds(methods: Sequence[str], infos: Sequence[RunInfo]) -> list[str]:
    asked = {method: {seed for info in infos if method in info.methods for seed in info.seeds} for method in methods}
    every = set().union(*asked.values())
    return [
        f"{method} was not asked for seed {', '.join(map(str, sorted(every - seeds)))}, which other methods ran"
        for method, seeds in asked.items()
        if every - seeds
    ]


def failed_trainings(rows: pd.DataFrame) -> list[str]:
    """Returns a line for every trial in which a client's training failed and was left out of the average."""
    lines = []
    for trial, own in rows[rows["failed"].map(len) > 0].groupby("trial", sort=True):
        clients = sorted({int(client) for failed in own["failed"] for client in failed})
        more = f" and {len(clients) - _MOST_LISTED} more" if len(clients) > _MOST_LISTED else ""
        named = f"client{'s' * (len(clients) > 1)} {', '.join(map(str, clients[:_MOST_LISTED]))}{more}"
        lines.append(f"{trial}: training failed in {pluralize(len(own), 'round')}, of {named}")
    return lines


def shortfalls(summaries: Sequence[MethodSummary], source: Source) -> list[str]:
    """Returns a line for every method that ran fewer seeds or rounds than asked for.

    Without run.json, what was asked for is the union of all seeds and the longest trial.
    """
    info, rows = source.info, source.rows
    methods = list(info.methods) if info else sorted(rows["method"].unique())
    seeds = list(info.seeds) if info else sorted(rows["seed"].unique())
    rounds = info.rounds if info else int(rows["round"].max())
    if info and info.search:
        asked = len(seeds) * (len(info.draws) or info.num_samples)
        return _search_shortfalls(summaries, methods, rounds, asked, stopped_trials(source.folder))
    done = {(summary.method, trial.seed): trial.rounds for summary in summaries for trial in summary.trials}
    found = {(method, seed): done.get((method, seed)) for method in methods for seed in seeds}
    return [
        f"{method} with seed {seed} has {'no rows' if ran is None else f'{ran} of {rounds} rounds'}"
        for (method, seed), ran in found.items()
        if (ran or 0) < rounds
    ]


def _search_shortfalls(
    summaries: Sequence[MethodSummary], methods: Sequence[str], rounds: int, asked: int, stopped: Collection[str]
) -> list[str]:
    """What ASHA stopped, as its journal says, is not missing; what ended otherwise is, and so is what never began."""
    lines = []
    for method in dict.fromkeys([*(summary.method for summary in summaries), *methods]):
        trials = [trial for summary in summaries if summary.method == method for trial in summary.trials]
        short = [trial.trial for trial in trials if trial.rounds < rounds]
        by_asha = sum(trial in stopped for trial in short)
        if by_asha:
            lines.append(f"{method}: ASHA stopped {by_asha} of {len(trials)} trials before round {rounds}")
        if by_asha < len(short):
            unfinished = f"{len(short) - by_asha} of {len(trials)} trials"
            lines.append(f"{method}: {unfinished} have not finished (resume them with --resume)")
        if len(trials) < asked:
            lines.append(f"{method}: {len(trials)} of {asked} trials have rows")
    return lines
