"""What was requested and is missing: every missing or short trial by name, and trainings that failed."""

from __future__ import annotations

import pandas as pd

from experiments.report.merged import Results
from experiments.report.read_studies import FinishedStudy
from experiments.results.checkpoints import ended_early
from experiments.results.naming import pluralize
from experiments.study.asha_journal import stopped_trials

_MOST_LISTED = 10


def find_shortfalls(results: Results) -> list[str]:
    """Returns a line for everything that is missing, for methods with fewer seeds than others, and for failures."""
    lines = [
        line
        for study in results.studies
        for line in (_search_shortfalls(study) if study.info.search else _trial_shortfalls(study))
    ]
    return [*lines, *_fewer_seeds(results), *failed_trainings(results.rows)]


def _trial_shortfalls(study: FinishedStudy) -> list[str]:
    last = study.rows.sort_values("round").groupby(["method", "seed"])[["trial", "round"]].last()
    done = {pair: (str(trial), int(ran)) for pair, trial, ran in last.itertuples(name=None)}
    lines = []
    for method, seed in ((method, seed) for method in study.info.methods for seed in study.info.seeds):
        trial, ran = done.get((method, seed), ("", 0))
        ended = ", after which a callback ended it" if study.info.callbacks else ", after which no client was left"
        over = ended if ran and ended_early(study.folder / trial) else ""
        has = f"has {ran} of {study.info.rounds} rounds{over}" if ran else "has no rows"
        lines += [f"{method} with seed {seed} {has}"] if ran < study.info.rounds else []
    return lines


def _search_shortfalls(study: FinishedStudy) -> list[str]:
    """Counts trials that ASHA has stopped, as its journal says, that have not finished, and that have no rows."""
    lines, stopped, info = [], stopped_trials(study.folder), study.info
    asked = len(info.seeds) * (len(info.draws) or info.num_samples)
    for method in info.methods:
        done = study.rows[study.rows["method"] == method].groupby("trial")["round"].max()
        short = done.index[done < info.rounds]
        by_asha = sum(trial in stopped for trial in short)
        unfinished = sum(trial not in stopped and not ended_early(study.folder / trial) for trial in short)
        if by_asha:
            lines.append(f"{method}: ASHA stopped {by_asha} of {len(done)} trials before round {info.rounds}")
        if unfinished:
            lines.append(f"{method}: {unfinished} of {len(done)} trials have not finished (resume them with --resume)")
        if len(done) < asked:
            lines.append(f"{method}: {len(done)} of {asked} trials have rows")
    return lines


def _fewer_seeds(results: Results) -> list[str]:
    """Names methods that several studies together did not run with all seeds."""
    asked = {
        method: {seed for info in results.infos if method in info.methods for seed in info.seeds}
        for method in results.methods
    }
    every = set().union(*asked.values())
    return [
        f"{method} was not asked for seed {', '.join(map(str, sorted(every - seeds)))}, which other methods ran"
        for method, seeds in asked.items()
        if len(results.infos) > 1 and every - seeds
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
