"""The report's sections on churn and on transfer, for studies that have them."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TypeAlias

import pandas as pd

from experiments.report.churn import find_churn
from experiments.report.comparable import check_same, check_same_settings, federation_settings
from experiments.report.comparisons import compare_rows, on_common_rounds
from experiments.report.curves import accuracy_figure
from experiments.report.merged import Results
from experiments.report.metrics import summarize
from experiments.report.plots import save_image
from experiments.report.tables import code, energy, markdown_table, with_interval

JUMP_START_ROUNDS = 20
#: By method that both studies have with a common seed: what is compared of our rows and of theirs.
Pairs: TypeAlias = Mapping[str, tuple[pd.DataFrame, pd.DataFrame]]


def check_against(results: Results, against: Results) -> None:
    """Raises ValueError if two studies are of different data or targets, or ``against`` serves no comparison."""
    for study in (results, against):
        if study.is_search:
            raise ValueError(f"{study.folders} is a search, whose settings differ; --against takes studies without one")
    if results.churn is None and not results.is_pretrained:
        raise ValueError(
            f"nothing to compare with {against.folders}: in {results.folders} no client joins or leaves, and no policy "
            "started from a checkpoint; leave out --against"
        )
    problem = f"{results.folders} cannot be compared with {against.folders}"
    facts = [_facts(study, has_churn=results.churn is not None) for study in (results, against)]
    check_same(facts[0], facts[1], problem)
    ignored = ["epsilon"] if results.is_pretrained else []  # pretrained policies start at its minimum
    for ours, theirs in itertools.product(results.studies, against.studies):
        check_same_settings(ours, theirs, problem, ignored)
    if results.is_pretrained and against.is_pretrained:
        raise ValueError(f"{against.folders} is pretrained too; name a run from scratch with --against")
    if results.churn is not None and against.churn is not None:
        raise ValueError(f"{against.folders} has churn too; name a run without with --against")


def _facts(study: Results, has_churn: bool) -> dict[str, object]:
    """Returns what must be the same: the whole federation or, as churn changes it, only what churn leaves alone."""
    federation = federation_settings(study.infos[0])
    if has_churn:
        federation = {key: federation.get(f"env.{key}") for key in ("dataset", "model", "budget_share")}
    return {"target": study.target, **federation}


def comparison_sections(results: Results, against: Results | None, output: Path) -> list[str]:
    """Returns Markdown of the sections that apply, with figures in ``output``; hints where ``against`` is missing."""
    churn = results.churn
    if against is None:
        missing = ["churn"] * (churn is not None) + ["pretraining"] * results.is_pretrained
        return [f"`--against DIR` adds a comparison with a run without {what}." for what in missing]
    pairs = _pairs(results, against)
    beside = ", ".join(code(study.folder.resolve().name) for study in against.studies)
    sections = []
    if churn is not None:
        names = ("with churn", "without")
        sections += [
            "## Churn",
            f"{churn.text[0].upper()}{churn.text[1:]}. Mean accuracy over the live clients, beside the same methods "
            f"and seeds without churn ({beside}); the difference is with − without.",
            *_unequal_budgets(pairs),
            f"From round {churn.first_round} on:",
            _table(pairs, names, churn.first_round),
            "Before that, where both runs should agree:",
            _table(pairs, names, 1, churn.first_round - 1),
            _image(pairs, names, results, output / "churn"),
        ]
    if results.is_pretrained:
        names = ("pretrained", "from scratch")
        checkpoints = ", ".join(dict.fromkeys(code(info.init_from) for info in results.infos if info.init_from))
        sections += [
            "## Jump-start",
            f"Policies from {checkpoints} beside policies from scratch ({beside}), same methods and seeds; the "
            "difference is pretrained − from scratch.",
            f"Mean accuracy over the first {JUMP_START_ROUNDS} rounds:",
            _table(pairs, names, 1, JUMP_START_ROUNDS),
            "Over all rounds:",
            _table(pairs, names, 1),
            _image(pairs, names, results, output / "transfer"),
        ]
    return sections


def _pairs(results: Results, against: Results) -> Pairs:
    pairs = {
        method: on_common_rounds(*(study.rows[study.rows["method"] == method] for study in (results, against)))
        for method in results.methods
    }
    return {method: pair for method, pair in pairs.items() if not pair[0].empty}


def _table(pairs: Pairs, names: Sequence[str], first: int, last: int | None = None) -> str:
    """Returns the table of mean accuracy over rounds ``first`` to ``last``, in the requested order of methods."""
    compared = {method: compare_rows(*pair, first, last) for method, pair in pairs.items()}
    records = [
        {
            "method": method,
            "rounds": f"{found.first}–{found.last}",
            "seeds": ", ".join(map(str, found.accuracy.seeds)),
            names[0]: with_interval(found.accuracy.ours, 3),
            names[1]: with_interval(found.accuracy.others, 3),
            "difference": with_interval(found.accuracy.difference, 3, signed=True),
        }
        for method, found in compared.items()
        if found
    ]
    return markdown_table(records) if records else "No method has these rounds on a seed of both studies."


def _image(pairs: Pairs, names: Sequence[str], results: Results, path: Path) -> str:
    """Draws rolling means of the methods, seeds and rounds that are compared; returns Markdown."""
    if not pairs:
        return "The two studies have no method and seed in common."
    ours, theirs = (pd.concat(rows) for rows in zip(*pairs.values(), strict=True))
    labels, churn = " and ".join(names), find_churn(ours)
    drawn = (summarize(rows.assign(setting=name)) for rows, name in zip((ours, theirs), names, strict=True))
    figure = accuracy_figure(next(drawn), results.target, f"{results.title}: {labels}", churn, next(drawn))
    return save_image(figure, path.parent, path.name, f"Rolling mean, {labels}")


def _unequal_budgets(pairs: Pairs) -> list[str]:
    """Returns a sentence where the two studies had different joules, as methods are compared on equal ones."""
    if not pairs:
        return []
    ours, others = (energy(pd.concat(rows)["budget_j"].mean()) for rows in zip(*pairs.values(), strict=True))
    unequal = f"the budget of a compared round is {ours} with churn and {others} without, in the mean."
    return [] if ours == others else [f"The two studies did not have equal joules: {unequal}"]
