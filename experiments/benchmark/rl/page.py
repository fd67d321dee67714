"""Tables and figure of ``benchmark rl``, from its rows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from experiments.benchmark.result import Row, as_text
from experiments.benchmark.rl.figure import overhead_figure
from experiments.benchmark.rl.rows import BIPPO, CENTRAL, PRIOR, STOCK, Case, Measurement
from experiments.report.plots import save_image
from experiments.report.tables import Record, markdown_table

NAMES = {BIPPO: "BIPPO", PRIOR: "with prior", CENTRAL: "central network", STOCK: "stock RLlib"}
#: Milliseconds per round and their parts; memory, build and checkpoints.
TIME_COLUMNS = ("clients", "trained", "who", "RL ms", "forward", "sampler", "bookkeeping", "learner", "kernel ms")
SIZE_COLUMNS = ("clients", "trained", "who", "MiB", "build s", "ckpt s", "ckpt MiB", "ckpt files")

Format = Callable[[Sequence[Record]], str]


def write_report(rows: Sequence[Measurement], command: str, folder: Path) -> list[Path]:
    """Writes overhead.md and the figure (PNG and SVG); returns their paths."""
    tables = (case_table(rows, TIME_COLUMNS), case_table(rows, SIZE_COLUMNS), ratios_table(rows), macs_table())
    page = folder / "overhead.md"
    page.write_text("\n\n".join([f"`{command}`", *tables]) + "\n", encoding="utf-8")
    save_image(overhead_figure(rows), folder, "overhead", "RL time per round over clients")
    return [page, folder / "overhead.png", folder / "overhead.svg"]


def case_table(rows: Sequence[Measurement], columns: Sequence[str]) -> str:
    """A line per case, as Markdown."""
    return markdown_table([{name: cells[name] for name in columns} for cells in map(_record, rows)])


def ratios_table(rows: Sequence[Measurement], to_table: Format = markdown_table) -> str:
    """What ``ratios`` finds; empty if BIPPO was not measured."""
    found = ratios(rows)
    return to_table([as_text(row) for row in found]) if found else ""


def macs_table() -> str:
    """MACs of the networks, as Markdown."""
    from experiments.report.macs import networks_table  # loads torch, which takes seconds

    return markdown_table(networks_table())


def stream_line(row: Measurement | None = None) -> str:
    """A line of the terminal's table, printed as soon as a row is there; the headers without a row."""
    names = dict.fromkeys((*TIME_COLUMNS, *SIZE_COLUMNS))
    cells = {name: name for name in names} if row is None else _record(row)
    return "  ".join(cells[name].rjust(max(len(name), 6 + 6 * (name in ("trained", "who")))) for name in names)


def _record(row: Measurement) -> Record:
    """All cells of a row; milliseconds are per round."""
    return as_text(
        {
            **_case(row.case),
            "who": NAMES[row.case.implementation],
            "RL ms": row.rl_ms,
            "forward": row.forward_ms,
            "sampler": None if row.case.implementation == STOCK else row.sampler_ms,
            "bookkeeping": row.bookkeeping_ms,
            "learner": row.learner_ms,
            "kernel ms": row.kernel_ms,
            "MiB": row.resident_mib_last,
            "build s": row.build_s,
            "ckpt s": row.checkpoint_s,
            "ckpt MiB": row.checkpoint_mib,
            "ckpt files": row.checkpoint_files,
        }
    )


def _case(case: Case) -> dict[str, str]:
    trained = f"{case.num_participants:,} ({case.rule})" if "%" in case.rule else case.rule
    return {"clients": f"{case.num_clients:,}", "trained": trained}


def ratios(rows: Sequence[Measurement]) -> list[Row]:
    """What BIPPO's figures are to the others', to those with the fewest clients, and at the end of a run to its start.

    One row for each of BIPPO's; None where what it is compared with was not measured.
    """
    measured = {(row.case.implementation, row.case.rule, row.case.num_clients): row for row in rows}
    ours = [row for row in rows if row.case.implementation == BIPPO]

    def to_bippo(implementation: str, case: Case) -> float | None:
        other = measured.get((implementation, case.rule, case.num_clients))
        return other.rl_to_bippo if other else None

    return [
        {
            **_case(row.case),
            "stock : BIPPO": to_bippo(STOCK, row.case),
            "central : BIPPO": to_bippo(CENTRAL, row.case),
            "with prior : BIPPO": to_bippo(PRIOR, row.case),
            "BIPPO : kernel": row.rl_to_kernel,
            "RL ms : fewest": row.rl_to_fewest,
            "learner : fewest": row.learner_to_fewest,
            "BIPPO : kernel, end : start": row.rl_to_kernel_growth,
            "MiB, end : start": row.resident_mib_last / row.resident_mib_first,
        }
        for row in ours
    ]
