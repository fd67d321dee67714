"""The report's sections on churn and on transfer, for studies that have them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pandas as pd

from experiments.report.churn_moments import find_churn
from experiments.report.comparisons import (
    JUMP_START_ROUNDS,
    Comparison,
    churn_comparison,
    jump_start,
    on_common_rounds,
)
from experiments.report.figures.accuracy import accuracy_figure
from experiments.report.plots import save_figure
from experiments.report.results import Results
from experiments.report.statistics_table import difference_text, estimate_text
from experiments.report.tables import Record, markdown_table

_WHAT_DIFFERS = {"churn": ("with churn", "without"), "transfer": ("pretrained", "from scratch")}


def comparison_sections(results: Results, against: Results | None, output: Path) -> list[str]:
    """Markdown of the sections that apply, and their figures in `output`; hints where `against` is missing."""
    churn = find_churn(results.rows)
    if against is None:
        return [
            _HINT.format(what)
            for what, applies in (("churn", churn), ("pretraining", results.is_pretrained))
            if applies
        ]
    sections = []
    if churn is not None:
        sections.append(_churn_section(results, against, output))
    if results.is_pretrained:
        sections.append(_transfer_section(results, against, output))
    return sections


_HINT = "`--against DIR` adds a comparison with a run without {}."


def check_against(results: Results, against: Results) -> None:
    """Raises ValueError if two studies are of different data or targets, or `against` serves no comparison."""
    churn = find_churn(results.rows)
    if churn is None and not results.is_pretrained:
        raise ValueError(
            f"nothing to compare with {_folders(against)}: in {_folders(results)} nobody joins or leaves, and no "
            "policy started from a checkpoint; leave out --against"
        )
    ours, theirs = (_facts(study) for study in (results, against))
    for name, value in ours.items():
        if theirs[name] != value:
            raise ValueError(
                f"{_folders(results)} cannot be compared with {_folders(against)}: {name} is {value} here and "
                f"{theirs[name]} there"
            )
    if results.is_pretrained and against.is_pretrained:
        raise ValueError(f"{_folders(against)} is pretrained too; name a run from scratch with --against")
    if churn is not None and find_churn(against.rows) is not None:
        raise ValueError(f"{_folders(against)} has churn too; name a run without with --against")


def _facts(study: Results) -> dict[str, object]:
    federation = study.infos[0].federation if study.infos else {}
    return {"target": study.target, **{key: federation.get(key) for key in ("dataset", "model", "budget_share")}}


def _folders(study: Results) -> str:
    return ", ".join(str(source.folder) for source in study.sources)


def _churn_section(results: Results, against: Results, output: Path) -> str:
    churn = find_churn(results.rows)
    before, after = (_ordered(part, results) for part in churn_comparison(results.rows, against.rows))
    assert churn is not None
    return "\n\n".join(
        [
            "## Churn",
            f"{churn.words[0].upper()}{churn.words[1:]}. Mean accuracy over the live clients, beside the same methods "
            f"and seeds without churn ({_names(against)}); the difference is with − without.",
            *_budgets(results, against),
            f"From round {churn.first_round} on:",
            _table(after, "churn"),
            *(["Before that:", _table(before, "churn")] if before else []),
            _figure(results, against, "churn", output),
        ]
    )


def _transfer_section(results: Results, against: Results, output: Path) -> str:
    early, whole = (_ordered(part, results) for part in jump_start(results.rows, against.rows))
    sources = ", ".join(dict.fromkeys(f"`{info.init_from}`" for info in results.infos if info.init_from))
    return "\n\n".join(
        [
            "## Jump-start",
            f"Policies from {sources} beside policies from scratch ({_names(against)}), same methods and seeds; the "
            "difference is pretrained − from scratch.",
            f"Mean accuracy over the first {JUMP_START_ROUNDS} rounds:",
            _table(early, "transfer"),
            "Over all rounds:",
            _table(whole, "transfer"),
            _figure(results, against, "transfer", output),
        ]
    )


def _ordered(comparisons: Sequence[Comparison], results: Results) -> list[Comparison]:
    """As the methods were asked for."""
    return sorted(comparisons, key=lambda comparison: results.methods.index(comparison.method))


def _names(study: Results) -> str:
    return ", ".join(f"`{source.folder.name}`" for source in study.sources)


def _table(comparisons: Sequence[Comparison], kind: str) -> str:
    if not comparisons:
        return "No method has these rounds on a seed of both studies."
    return markdown_table([_record(comparison, *_WHAT_DIFFERS[kind]) for comparison in comparisons])


def _record(comparison: Comparison, ours: str, others: str) -> Record:
    return {
        "method": comparison.method,
        "rounds": f"{comparison.first}–{comparison.last}",
        "seeds": ", ".join(map(str, comparison.difference.seeds)),
        ours: estimate_text(comparison.ours, 3),
        others: estimate_text(comparison.others, 3),
        "difference": difference_text(comparison.difference, 3),
    }


def _budgets(results: Results, against: Results) -> list[str]:
    """A sentence where the two studies did not have the same joules, as methods are compared on equal ones."""
    pairs = _compared_rows(results, against)
    if not pairs:
        return []
    ours, others = (f"{pd.concat(rows)['budget_j'].mean():.4g} J" for rows in zip(*pairs, strict=True))
    if ours == others:
        return []
    return [
        f"The two studies did not have equal joules: the budget of a compared round is {ours} with churn and {others} "
        "without, in the mean."
    ]


def _figure(results: Results, against: Results, kind: str, output: Path) -> str:
    """Rolling means of the methods, seeds and rounds that are compared."""
    labels = _WHAT_DIFFERS[kind]
    parts = [
        rows.assign(setting=label, trial=label + rows["trial"])
        for pair in _compared_rows(results, against)
        for rows, label in zip(pair, labels, strict=True)
    ]
    if not parts:
        return "The two studies have no method and seed in common."
    drawn, every = pd.concat(parts), results.rows
    until = every[every["round"] <= drawn["round"].max()]
    title = f"{results.scenario}: {' and '.join(labels)}"
    png, _ = save_figure(accuracy_figure(drawn, results.target, title, until), output, kind)
    return f"![Rolling mean, {' and '.join(labels)}]({png.name})"


def _compared_rows(results: Results, against: Results) -> list[tuple[pd.DataFrame, pd.DataFrame]]:
    """Of each method that both studies have with a common seed: our rows and theirs."""
    pairs = [
        on_common_rounds(*(study.rows[study.rows["method"] == method] for study in (results, against)))
        for method in results.methods
    ]
    return [pair for pair in pairs if not pair[0].empty]
