"""report.md: its sections as Markdown, and the figures they show."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from experiments.report.comparison_sections import comparison_sections
from experiments.report.curves import accuracy_figure, energy_figure
from experiments.report.macs import macs_section
from experiments.report.merged import Results
from experiments.report.method_tables import interval_records, paired_records, stage_records
from experiments.report.metrics import LATE_ROUND, MethodSummary
from experiments.report.paper_table import paper_table
from experiments.report.plots import save_image
from experiments.report.selection import selection_figure, selection_records
from experiments.report.statistics import Estimate
from experiments.report.summary import Report
from experiments.report.tables import Record, code, energy, markdown_table, plain
from experiments.results.federation_record import ClientRecord, FederationRecord
from experiments.results.files import check_writable
from experiments.results.run_info import RunInfo
from experiments.results.setting_text import describe
from experiments.scenarios import SCENARIOS

REPORT_FILE = "report.md"
MAX_SETTINGS = 7
MAX_CLIENTS = 100


def write_report(report: Report, output: Path) -> tuple[Path, Path]:
    """Writes report.md and the figures (PNG and SVG); returns the paths of the report and of the accuracy PNG."""
    check_writable(output, "--output")
    output.mkdir(parents=True, exist_ok=True)
    path = output / REPORT_FILE
    path.write_text("\n\n".join(sections(report, output)) + "\n", encoding="utf-8")
    return path, output / "accuracy.png"


def sections(report: Report, output: Path) -> list[str]:
    """Returns all sections in their order; figures are written to ``output`` and, of a search, show the best only."""
    results, summaries, title = report.results, report.summaries, report.heading
    drawn = summaries[:MAX_SETTINGS] if results.is_search else summaries
    more = len(summaries) - len(drawn)
    accuracy = accuracy_figure(drawn, results.target, title, results.churn)
    missing = "\n".join(f"- {plain(line)}" for line in report.shortfalls)
    return [
        f"# {plain(title)}",
        markdown_table(report.records),
        *map(plain, report.notes),
        save_image(accuracy, output, "accuracy", "Accuracy over rounds"),
        *([f"The figures show the best {len(drawn)} settings; {more} more are in the table."] if more else []),
        *([f"## Missing or incomplete\n\n{missing}"] if missing else []),
        "## Accuracy by rounds",
        markdown_table(stage_records(summaries)),
        "Mean accuracy in these rounds, ± population standard deviation over seeds.",
        *_paper(report),
        *_statistics(report),
        *comparison_sections(results, report.against, output),
        "## Energy per round",
        save_image(energy_figure(drawn, title, results.churn), output, "energy", "Energy per round and budget"),
        *_charges(drawn),
        *_selection(drawn, report, output),
        *_clients(results.federation_record),
        *macs_section(results),
        _DEFINITIONS,
        *_runs(results),
    ]


def _paper(report: Report) -> list[str]:
    results, scenario = report.results, SCENARIOS.get(report.results.scenario)
    table = paper_table(report.summaries, scenario, results.rounds) if scenario else []
    if not table or scenario is None or results.target != scenario.target_accuracy:
        return []
    changed = {key: value for info in results.infos for key, value in info.settings.items() if key.startswith("env.")}
    differs = f" The federation is not the paper's: {plain(describe(changed))}." if changed else ""
    longest = int(results.rows["round"].max())
    run = f"{longest} rounds were" if longest > 1 else "1 round was"
    return [
        f"## Compared with the paper (section {scenario.paper_section})",
        markdown_table(table),
        f"Best in **bold**, second best <u>underlined</u>, per row, ours and the paper's each by themselves. "
        f"The paper's figures are over {scenario.rounds} rounds and 3 to 4 seeds; here {run} run. "
        f"†: shorter than requested, not ranked. (k of n): reached by k of n seeds, not ranked.{differs}",
    ]


def _statistics(report: Report) -> list[str]:
    if report.results.is_search:
        return []
    parts = [
        "## Statistics over seeds",
        markdown_table(interval_records(report.summaries, report.results.target)),
        "Mean ± population standard deviation (ddof 0) and 95 % bootstrap interval of the mean (percentile, 9,999 "
        "resamples of the seeds). An interval cannot leave the range of the seeds, so with few it is too narrow.",
    ]
    paired = paired_records(report.summaries, report.results.target)
    if paired:
        parts += ["### Differences between methods, paired by seed", markdown_table(paired)]
        parts.append("Accuracy: positive is better for the first. Rounds to target: negative is.")
    return parts


def _charges(summaries: Sequence[MethodSummary]) -> list[str]:
    """Returns the share of energy spent on probing and on selection, of methods that were charged for it."""
    lines = []
    for column, what in (("probing_j", "probing"), ("selection_j", "selecting and learning")):
        spent = [(summary.label, summary.rows[[column, "energy_j"]].sum()) for summary in summaries]
        shares = [f"{plain(name)} {100 * of[column] / of['energy_j']:.1f} %" for name, of in spent if of[column]]
        lines += [f"Part of the energy that was spent on {what}: {', '.join(shares)}."] if shares else []
    return lines


def _selection(drawn: Sequence[MethodSummary], report: Report, output: Path) -> list[str]:
    record = report.results.federation_record
    is_noisy = record is not None and record.noisy_clients
    noisy = " Noisy clients have wrong labels; energy to them: % of all energy spent on training." if is_noisy else ""
    table = [
        "## Who was selected",
        markdown_table(selection_records(drawn, record)),
        "Selected: trained, or failed to. Different clients: how many were selected at least once, mean over seeds. "
        f"By kind: % of all selections.{noisy}",
    ]
    figure = selection_figure(drawn, record, report.heading, report.results.churn)
    if figure is None:
        return [*table, "There are too many clients and rounds for a figure."]
    return [
        *table,
        save_image(figure, output, "selection", "Clients selected by round"),
        "Darker: selected by more of the seeds that had the client in the round; hatched: none had it. Lines part "
        "clients that hold different numbers of labels, crosses mark wrong labels.",
    ]


def _clients(record: FederationRecord | None) -> list[str]:
    if record is None:
        return ["## Clients", "run.json does not hold the clients."]
    shown = [_client(client, record) for client in record.clients[:MAX_CLIENTS]]
    more = len(record.clients) - len(shown)
    return ["## Clients", markdown_table(shown), *([f"{more} more are in run.json."] if more else [])]


def _client(client: ClientRecord, record: FederationRecord) -> Record:
    """Returns a client's device, and how many training samples of which classes it holds."""
    held = {record.classes[int(label)]: samples for label, samples in client.labels.items() if samples}
    return {
        "client": str(client.client),
        "training samples": f"{client.num_samples:,}",
        "MHz": f"{client.cpu_freq_hz / 1e6:,.0f}",
        "a round": energy(client.cost_j),
        **({"labels": "wrong" if client.client in record.noisy_clients else "right"} if record.noisy_clients else {}),
        "classes": str(len(held)),
        "samples by class": ", ".join(f"{name}: {samples}" for name, samples in held.items()),
    }


_DEFINITIONS = f"""## What the columns mean

- mean accuracy: over clients (unweighted) and all rounds, a share of 1 (figures show %); then mean ± population
  standard deviation over seeds. Accuracy > round {LATE_ROUND}: the same over later rounds only.
- rounds to target: the first round at which the mean accuracy of the last 10 rounds reaches the target. Seeds that
  never do are counted ("reached k of n") and left out of the mean.
- energy per round, % of budget, total: all that rounds 1 and later were charged, without round 0: training, also where
  it failed, probing and selecting."""


def _runs(results: Results) -> list[str]:
    """Returns one section per study with a record, with its name where there are several."""
    several = len(results.studies) > 1
    return [
        _run(study.info, f"How {code(study.folder.resolve().name)} was run" if several else "How it was run")
        for study in results.studies
        if study.is_recorded
    ]


def _run(info: RunInfo, title: str) -> str:
    lines = [f"- command: {code(info.command)}"] if info.command else []
    lines += [f"- {plain(f'{name} = {value}')}" for name, value in {**info.settings, **info.search}.items()]
    warmup = Estimate.of(info.warmup_energy_j.values())
    if warmup.n:
        lines.append(
            f"- round 0 (all clients, one epoch; in none of the numbers above): {energy(warmup.mean)} per trial"
        )
    return f"## {title}\n\n" + "\n".join([*lines, "- commit, versions and machine: `run.json`"])
