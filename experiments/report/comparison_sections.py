"""The report's sections on churn and on transfer, for studies that have them."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import pandas as pd

from experiments.report.churn_moments import Churn, find_churn
from experiments.report.comparisons import Comparison, compare_rows, on_common_rounds
from experiments.report.curves import accuracy_figure
from experiments.report.numbers import energy, with_interval
from experiments.report.plots import save_image
from experiments.report.results import Results, check_same, check_same_settings, compared_federation
from experiments.report.tables import Record, code, markdown_table

JUMP_START_ROUNDS = 20


def check_against(results: Results, against: Results) -> None:
    """Raises ValueError if two studies are of different data or targets, or ``against`` serves no comparison."""
    churn = find_churn(results.rows)
    for study in (results, against):
        if study.is_search:
            raise ValueError(f"{study.folders} is a search, whose settings differ; --against takes studies without one")
    if churn is None and not results.is_pretrained:
        raise ValueError(
            f"nothing to compare with {against.folders}: in {results.folders} no client joins or leaves, and no policy "
            "started from a checkpoint; leave out --against"
        )
    problem = f"{results.folders} cannot be compared with {against.folders}"
    check_same(_facts(results, churn), _facts(against, churn), problem)
    ignored = ["epsilon"] if results.is_pretrained else []  # pretrained policies start at its minimum
    for ours, theirs in itertools.product(results.sources, against.sources):
        check_same_settings(ours, theirs, problem, ignored)
    if results.is_pretrained and against.is_pretrained:
        raise ValueError(f"{against.folders} is pretrained too; name a run from scratch with --against")
    if churn is not None and find_churn(against.rows) is not None:
        raise ValueError(f"{against.folders} has churn too; name a run without with --against")


def _facts(study: Results, churn: Churn | None) -> dict[str, object]:
    """What must be the same: the whole federation, but with churn, which changes it, only what it leaves alone."""
    federation = compared_federation(study.infos[0]) if study.infos else {}
    if churn is not None:
        federation = {key: federation.get(f"env.{key}") for key in ("dataset", "model", "budget_share")}
    return {"target": study.target, **federation}


def comparison_sections(results: Results, against: Results | None, output: Path) -> list[str]:
    """Returns Markdown of the sections that apply, with figures in ``output``; hints where ``against`` is missing."""
    churn = find_churn(results.rows)
    if against is None:
        missing = ["churn"] * (churn is not None) + ["pretraining"] * results.is_pretrained
        return [f"`--against DIR` adds a comparison with a run without {what}." for what in missing]
    sections = []
    if churn is not None:
        sections.append(_churn_section(_Pair(results, against, "churn", "with churn", "without"), churn, output))
    if results.is_pretrained:
        sections.append(_transfer_section(_Pair(results, against, "transfer", "pretrained", "from scratch"), output))
    return sections


@dataclass(frozen=True)
class _Pair:
    """A study and the one it is compared with, the name of their figure, and what each of the two is called."""

    results: Results
    against: Results
    name: str
    ours: str
    others: str

    @property
    def against_names(self) -> str:
        return ", ".join(code(source.folder.resolve().name) for source in self.against.sources)

    @cached_property
    def rows(self) -> dict[str, tuple[pd.DataFrame, pd.DataFrame]]:
        """By method that both studies have with a common seed: what is compared of our rows and of theirs."""
        pairs = {
            method: on_common_rounds(
                *(study.rows[study.rows["method"] == method] for study in (self.results, self.against))
            )
            for method in self.results.methods
        }
        return {method: pair for method, pair in pairs.items() if not pair[0].empty}

    def table(self, first: int, last: int | None = None) -> str:
        """Mean accuracy over rounds ``first`` to ``last``, methods as they were asked for."""
        compared = {method: compare_rows(*pair, first, last) for method, pair in self.rows.items()}
        records = [self._record(method, found) for method, found in compared.items() if found]
        return markdown_table(records) if records else "No method has these rounds on a seed of both studies."

    def _record(self, method: str, comparison: Comparison) -> Record:
        accuracy = comparison.accuracy
        return {
            "method": method,
            "rounds": f"{comparison.first}–{comparison.last}",
            "seeds": ", ".join(map(str, accuracy.seeds)),
            self.ours: with_interval(accuracy.ours, 3),
            self.others: with_interval(accuracy.others, 3),
            "difference": with_interval(accuracy.difference, 3, signed=True),
        }

    def figure(self, output: Path) -> str:
        """Rolling means of the methods, seeds and rounds that are compared."""
        parts = [
            rows.assign(setting=label, trial=label + rows["trial"])
            for pair in self.rows.values()
            for rows, label in zip(pair, (self.ours, self.others), strict=True)
        ]
        if not parts:
            return "The two studies have no method and seed in common."
        drawn, every, labels = pd.concat(parts), self.results.rows, f"{self.ours} and {self.others}"
        until = every[every["round"] <= drawn["round"].max()]
        figure = accuracy_figure(drawn, self.results.target, f"{self.results.title}: {labels}", until)
        return save_image(figure, output, self.name, f"Rolling mean, {labels}")


def _churn_section(pair: _Pair, churn: Churn, output: Path) -> str:
    parts = [
        "## Churn",
        f"{str(churn)[0].upper()}{str(churn)[1:]}. Mean accuracy over the live clients, beside the same methods "
        f"and seeds without churn ({pair.against_names}); the difference is with − without.",
        *_unequal_budgets(pair),
        f"From round {churn.first_round} on:",
        pair.table(churn.first_round),
        "Before that, where both runs should agree:",
        pair.table(1, churn.first_round - 1),
        pair.figure(output),
    ]
    return "\n\n".join(parts)


def _unequal_budgets(pair: _Pair) -> list[str]:
    """A sentence where the two studies did not have the same joules, as methods are compared on equal ones."""
    if not pair.rows:
        return []
    ours, others = (energy(pd.concat(rows)["budget_j"].mean()) for rows in zip(*pair.rows.values(), strict=True))
    unequal = f"the budget of a compared round is {ours} with churn and {others} without, in the mean."
    return [] if ours == others else [f"The two studies did not have equal joules: {unequal}"]


def _transfer_section(pair: _Pair, output: Path) -> str:
    sources = ", ".join(dict.fromkeys(code(info.init_from) for info in pair.results.infos if info.init_from))
    parts = [
        "## Jump-start",
        f"Policies from {sources} beside policies from scratch ({pair.against_names}), same methods and seeds; the "
        "difference is pretrained − from scratch.",
        f"Mean accuracy over the first {JUMP_START_ROUNDS} rounds:",
        pair.table(1, JUMP_START_ROUNDS),
        "Over all rounds:",
        pair.table(1),
        pair.figure(output),
    ]
    return "\n\n".join(parts)
