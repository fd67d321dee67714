"""The paper's summary table with our numbers beside it: best in bold, second best underlined, row by row."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from experiments.methods import is_reference
from experiments.report.metrics import MethodSummary
from experiments.report.styles import method_name
from experiments.report.tables import MISSING, Markdown, Record, number
from experiments.scenarios import PaperResult, Scenario

#: The paper's columns in its order; methods it has no column for follow.
COLUMNS = ("bippo", "fppo", "ippo", "ppo", "fedavg", "poca")


class Cell(NamedTuple):
    """What is printed, and the number it is ranked by; None is not ranked."""

    text: str
    value: float | None = None


class Metric(NamedTuple):
    """Two rows of the table: ours from a summary, with so many decimals, and the paper's from its table."""

    name: str
    decimals: int
    less_is_better: bool
    ours: Callable[[MethodSummary], float]  #: NaN where there is none.
    paper: Callable[[PaperResult], float | None]


def _rounds_std(summary: MethodSummary) -> float:
    return summary.rounds_to_target.std if summary.rounds_to_target.n > 1 else math.nan


def _accuracy_std(summary: MethodSummary) -> float:
    return float(summary.rows["mean_accuracy"].std(ddof=0))


METRICS = (
    Metric("rounds to target, mean", 2, True, lambda s: s.rounds_to_target.mean, lambda p: p.rounds_to_target),
    Metric("rounds to target, std", 2, True, _rounds_std, lambda p: p.rounds_to_target_std),
    Metric("mean accuracy", 3, False, lambda s: s.mean_accuracy.mean, lambda p: p.mean_accuracy),
    Metric("std of accuracy (all rounds and seeds)", 3, True, _accuracy_std, lambda p: p.accuracy_std),
)


def paper_table(summaries: Sequence[MethodSummary], scenario: Scenario, rounds: int) -> list[Record]:
    """Returns two records per metric, ours and the paper's, and one with the number of seeds.

    Empty where the paper has no table, and in a search. Methods with a trial of fewer than ``rounds`` rounds are shown
    and not ranked, and so are rounds to target of a method that a seed of it never reached.
    """
    found = {summary.method: summary for summary in summaries}
    if not scenario.paper or len(found) != len(summaries):
        return []
    lines = {"seeds (n), ours": {name: str(summary.num_seeds) for name, summary in found.items()}}
    for metric in METRICS:
        ours = {name: _our_cell(metric, summary, rounds) for name, summary in found.items()}
        papers = {name: _paper_cell(metric.paper(result)) for name, result in scenario.paper.items()}
        printed = scenario.paper_accuracy if metric.name == "mean accuracy" else metric.name
        lines[f"{metric.name}: ours"] = mark_best(ours, metric.less_is_better)
        lines[f"{printed}: paper"] = mark_best(papers, metric.less_is_better)
    methods = [name for name in dict.fromkeys([*COLUMNS, *found]) if name in found or name in scenario.paper]
    return [
        {"": name, **{_heading(method): cells.get(method, MISSING) for method in methods}}
        for name, cells in lines.items()
    ]


def _heading(method: str) -> str:
    return f"({method_name(method)})" if is_reference(method) else method_name(method)


def _our_cell(metric: Metric, summary: MethodSummary, rounds: int) -> Cell:
    value, reached = metric.ours(summary), summary.rounds_to_target.n
    is_partial = metric.name.startswith("rounds") and reached < summary.num_seeds
    partly = f" ({reached} of {summary.num_seeds})" if is_partial else ""
    if math.isnan(value):
        return Cell(f"{MISSING}{partly}")
    is_short = summary.trials["rounds"].min() < rounds
    text = f"{number(value, metric.decimals)}{partly}{'†' if is_short else ''}"
    is_ranked = not (is_partial or is_short or summary.is_reference)
    return Cell(text, round(value, metric.decimals) if is_ranked else None)


def _paper_cell(value: float | None) -> Cell:
    return Cell(MISSING) if value is None else Cell(str(value), value)


def mark_best(cells: Mapping[str, Cell], less_is_better: bool) -> dict[str, str]:
    """Returns Markdown: the best in bold, the second best underlined, with all that tie; nothing if one is ranked."""
    values = [cell.value for cell in cells.values() if cell.value is not None]
    first, second = [*sorted(set(values), reverse=not less_is_better), None, None][:2]
    marks = {first: "**{}**", second: "<u>{}</u>", None: "{}"} if len(values) > 1 else {}
    return {method: Markdown(marks.get(cell.value, "{}").format(cell.text)) for method, cell in cells.items()}
