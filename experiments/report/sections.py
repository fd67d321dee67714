"""The sections of report.md: Markdown, and the figures they show."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pandas as pd
from matplotlib.figure import Figure

from experiments.report.comparison_sections import comparison_sections
from experiments.report.figures.accuracy import accuracy_figure
from experiments.report.figures.classes import classes_figure
from experiments.report.figures.distribution import distribution_figure
from experiments.report.figures.energy import energy_figure
from experiments.report.figures.selection import selection_figure
from experiments.report.metrics import Spread
from experiments.report.paper_table import paper_table
from experiments.report.plots import save_figure
from experiments.report.results import Results
from experiments.report.selection_table import selection_records
from experiments.report.statistics_table import interval_records, paired_records
from experiments.report.tables import markdown_table
from experiments.results.run_info import RunInfo
from experiments.scenarios import SCENARIOS

if TYPE_CHECKING:
    from experiments.report.report import Report

MAX_SETTINGS = 7


def sections(report: Report, output: Path) -> list[str]:
    """All sections in their order; figures are written to `output`."""
    rows = drawn_rows(report)
    parts = [
        f"# {report.heading}",
        markdown_table(report.records),
        _image(accuracy_figure(rows, report.target, report.heading), output, "accuracy", "Accuracy over rounds"),
    ]
    undrawn = len(report.summaries) - MAX_SETTINGS
    if undrawn > 0 and report.results.is_search:
        parts.append(f"The figures show the best {MAX_SETTINGS} settings; {undrawn} more are in the table.")
    if report.shortfalls:
        parts.append("## Less than asked for\n\n" + "\n".join(f"- {line}" for line in report.shortfalls))
    parts += [
        *_distribution(report, rows, output),
        *_paper(report),
        *_statistics(report),
        *comparison_sections(report.results, report.against, output),
        *_energy(report, rows, output),
        *_selection(report, rows, output),
        *_clients(report, output),
        *_overhead(report, output),
        _DEFINITIONS,
    ]
    return [*parts, *_runs(report.results)]


def drawn_rows(report: Report) -> pd.DataFrame:
    """Rows of what the figures show, in the order of the table; of a search only the best settings."""
    shown = report.summaries[:MAX_SETTINGS] if report.results.is_search else report.summaries
    order = {(summary.method, summary.setting): index for index, summary in enumerate(shown)}
    keys = pd.Series(list(zip(report.rows["method"], report.rows["setting"], strict=True)), index=report.rows.index)
    drawn = report.rows[keys.isin(list(order))].assign(_order=keys.map(order))
    return drawn.sort_values(["_order", "seed", "trial", "round"], kind="stable")


def _image(figure: Figure, output: Path, name: str, words: str) -> str:
    png, _ = save_figure(figure, output, name)
    return f"![{words}]({png.name})"


def _distribution(report: Report, rows: pd.DataFrame, output: Path) -> list[str]:
    image = _image(
        distribution_figure(rows, report.target, report.heading), output, "distribution", "Accuracy distribution"
    )
    return [
        "## Accuracy distribution",
        image,
        "One value per round and seed: the mean over live clients. Boxes are quartiles with the median, whiskers reach "
        "1.5 interquartile ranges, dots lie beyond. The dashed line is the target.",
    ]


def _paper(report: Report) -> list[str]:
    scenario = SCENARIOS.get(report.results.scenario)
    table = paper_table(report.summaries, scenario, report.results.rounds) if scenario else []
    if not table or scenario is None:
        return []
    longest = int(report.rows["round"].max())
    run = f"{longest} rounds were" if longest > 1 else "1 round was"
    return [
        f"## Beside the paper (section {scenario.paper_section})",
        markdown_table(table),
        f"Best in **bold**, second best <u>underlined</u>, per row, ours and the paper's each by themselves. "
        f"The paper's figures are over {scenario.rounds} rounds and 3 to 4 seeds; here {run} run. "
        "†: shorter than asked for, not ranked. (k of n): reached by k of n seeds, not ranked.",
    ]


def _statistics(report: Report) -> list[str]:
    if report.results.is_search:
        return []
    parts = [
        "## Statistics over seeds",
        markdown_table(interval_records(report.summaries, report.target)),
        "Mean ± population standard deviation (ddof 0) and 95 % bootstrap interval of the mean (percentile, 9,999 "
        "resamples of the seeds). An interval cannot leave the range of the seeds, so with few it is too narrow.",
    ]
    paired = paired_records(report.rows, report.summaries, report.target)
    if paired:
        parts += ["### BIPPO minus other methods, on the same seeds", markdown_table(paired)]
        parts.append("Accuracy: positive is better for BIPPO. Rounds to target: negative is.")
    return parts


def _energy(report: Report, rows: pd.DataFrame, output: Path) -> list[str]:
    return [
        "## Energy per round",
        _image(energy_figure(rows, report.heading), output, "energy", "Energy per round and budget"),
        *_probing(rows),
    ]


def _probing(rows: pd.DataFrame) -> list[str]:
    """Energy that went into asking clients, of methods that were charged for it."""
    if "probing_j" not in rows or not rows["probing_j"].sum() > 0:
        return []
    spent = rows.groupby(["method", "setting"], sort=False)[["probing_j", "energy_j"]].sum()
    asked = spent[spent["probing_j"] > 0]
    shares = [
        f"{' '.join(filter(None, key))} {100 * row.probing_j / row.energy_j:.1f} %" for key, row in asked.iterrows()
    ]
    return [f"Part of the energy that told losses or accuracies to the selection: {', '.join(shares)}."]


def _selection(report: Report, rows: pd.DataFrame, output: Path) -> list[str]:
    resolved = report.results.resolved
    figure = selection_figure(rows, resolved, report.heading)
    return [
        "## Who was selected",
        markdown_table(selection_records(rows, resolved)),
        "Different clients: how many trained at least once, mean over seeds. Percentages: share of all participations.",
        _image(figure, output, "selection", "Clients selected by round"),
        "Darker: selected by more of the seeds that had the client in the round.",
    ]


def _clients(report: Report, output: Path) -> list[str]:
    resolved = report.results.resolved
    if resolved is None:
        return ["## Clients", "run.json does not hold the clients."]
    title = f"{report.results.scenario}: training samples per class and client"
    return [
        "## Clients",
        _image(classes_figure(resolved, title), output, "classes", "Class distribution of the clients"),
    ]


def _overhead(report: Report, output: Path) -> list[str]:
    from experiments.report.macs_section import macs_section  # loads torch, which takes seconds

    return macs_section(report.results, output)


_DEFINITIONS = """## What the columns mean

- mean accuracy: over clients (unweighted) and all rounds; then mean ± population standard deviation over seeds.
- rounds to target: the first round at which the mean accuracy of the last 10 rounds reaches the target. Seeds that
  never do are counted ("reached k of n") and left out of the mean.
- J/round, of budget, J in all: energy of the clients that trained, in rounds 1 and later; round 0 is not in it."""


def _runs(results: Results) -> list[str]:
    """One section per folder, with its name where there are several."""
    several = len(results.sources) > 1
    return [
        _run(source.info, f"How `{source.folder.name}` was run" if several else "How it was run")
        for source in results.sources
        if source.info is not None
    ]


def _run(info: RunInfo, title: str) -> str:
    lines = [f"- command: `{info.command}`"] if info.command else []
    lines += [f"- {name} = {value}" for name, value in {**info.settings, **info.search}.items()]
    warmup = Spread.of(list(info.warmup_energy_j.values()))
    if warmup is not None:
        lines.append(f"- round 0 (all clients, one epoch; in none of the figures above): {warmup.mean:.4g} J per trial")
    return f"## {title}\n\n" + "\n".join([*lines, "- commit, versions and machine: `run.json`"])
