"""The paper's summary table with our numbers beside it: best in bold, second best underlined, row by row."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from experiments.report.metrics import MethodSummary
from experiments.report.plots import method_name
from experiments.report.tables import Record
from experiments.scenarios import PaperResult, Scenario

COLUMNS = ("bippo", "fppo", "ippo", "ppo", "fedavg", "poca")
"""The paper's columns in its order; methods it has no column for follow."""


class Cell(NamedTuple):
    """What is printed, and the number it is ranked by; None is not ranked."""

    text: str
    value: float | None = None


class Metric(NamedTuple):
    """A row of the table: ours from a summary, the paper's from its table, and whether less is better."""

    name: str
    decimals: int
    paper_decimals: int
    less_is_better: bool
    ours: Callable[[MethodSummary], float | None]
    paper: Callable[[PaperResult], float | None]


METRICS = (
    Metric(
        "rounds to target, mean",
        2,
        3,
        True,
        lambda s: s.rounds_to_target.mean if s.rounds_to_target else None,
        lambda p: p.rounds_to_target,
    ),
    Metric(
        "rounds to target, std",
        2,
        3,
        True,
        lambda s: s.rounds_to_target.std if s.rounds_to_target and s.rounds_to_target.n > 1 else None,
        lambda p: p.rounds_to_target_std,
    ),
    Metric("mean accuracy", 3, 3, False, lambda s: s.mean_accuracy.mean, lambda p: p.mean_accuracy),
    Metric(
        "std of accuracy (all rounds and seeds)",
        3,
        3,
        True,
        lambda s: s.accuracy_std_over_rounds,
        lambda p: p.accuracy_std,
    ),
)


def paper_table(summaries: Sequence[MethodSummary], scenario: Scenario, rounds: int) -> list[Record]:
    """Two records per metric, ours and the paper's, and one with the number of seeds; empty without a paper's table.

    Methods with a trial of fewer than `rounds` rounds are shown and not ranked, and so are rounds to target of a method
    that a seed of it never reached.
    """
    found = {summary.method: summary for summary in summaries}
    if not scenario.paper or len(found) != len(summaries):
        return []
    methods = [
        name for name in (*COLUMNS, *(m for m in found if m not in COLUMNS)) if name in {**found, **scenario.paper}
    ]
    lines: list[tuple[str, Mapping[str, Cell], bool]] = [
        ("seeds (n), ours", {name: Cell(str(found[name].num_seeds)) for name in methods if name in found}, False)
    ]
    for metric in METRICS:
        lines.append((f"{metric.name}: ours", _ours(metric, found, rounds), metric.less_is_better))
        printed = scenario.paper_accuracy if metric.name == "mean accuracy" else metric.name
        lines.append((f"{printed}: paper", _papers(metric, scenario.paper), metric.less_is_better))
    return [_record(name, cells, methods, less) for name, cells, less in lines]


def _record(name: str, cells: Mapping[str, Cell], methods: Sequence[str], less_is_better: bool) -> Record:
    marked = mark_best(cells, less_is_better)
    return {"": name, **{method_name(method): marked.get(method, "–") for method in methods}}


def _ours(metric: Metric, found: Mapping[str, MethodSummary], rounds: int) -> dict[str, Cell]:
    return {method: _our_cell(metric, summary, rounds) for method, summary in found.items()}


def _our_cell(metric: Metric, summary: MethodSummary, rounds: int) -> Cell:
    value, reached = metric.ours(summary), summary.rounds_to_target.n if summary.rounds_to_target else 0
    is_rounds, all_reached = metric.name.startswith("rounds"), reached == summary.num_seeds
    partly = f" ({reached} of {summary.num_seeds})" if is_rounds and not all_reached else ""
    if value is None:
        return Cell(f"–{partly}")
    short = min(trial.rounds for trial in summary.trials) < rounds
    text = f"{value:.{metric.decimals}f}"
    return Cell(f"{text}{partly}{'†' if short else ''}", None if partly or short else float(text))


def _papers(metric: Metric, paper: Mapping[str, PaperResult]) -> dict[str, Cell]:
    values = {method: metric.paper(result) for method, result in paper.items()}
    return {
        method: Cell("–") if value is None else Cell(as_printed(value, metric.paper_decimals), value)
        for method, value in values.items()
    }


def as_printed(value: float, decimals: int) -> str:
    """43.0, 41.75, 10.416: as many digits as the paper has, at least one."""
    text = f"{value:.{decimals}f}".rstrip("0")
    return f"{text}0" if text.endswith(".") else text


def mark_best(cells: Mapping[str, Cell], less_is_better: bool) -> dict[str, str]:
    """Markdown: the best in bold, the second best underlined, with all that tie; nothing where only one is ranked."""
    ranked = sorted({cell.value for cell in cells.values() if cell.value is not None}, reverse=not less_is_better)
    num_ranked = sum(cell.value is not None for cell in cells.values())
    first, second = [*ranked, None, None][:2]
    marked = {}
    for method, cell in cells.items():
        text = cell.text
        if num_ranked > 1 and cell.value is not None:
            text = f"**{text}**" if cell.value == first else f"<u>{text}</u>" if cell.value == second else text
        marked[method] = text
    return marked
