"""The report's section on MACs: what selection costs beside the training it selects for."""

from __future__ import annotations

from pathlib import Path

from experiments.report.figures.macs import macs_figure
from experiments.report.mac_counts import (
    RL_EPOCHS,
    TRAINING_FACTOR,
    RoundMacs,
    central_ratio,
    power_of_ten,
    round_macs,
    training_macs,
)
from experiments.report.plots import method_name, save_figure
from experiments.report.results import Results
from experiments.report.tables import Record, markdown_table


def macs_section(results: Results, output: Path) -> list[str]:
    """Markdown; the figure is written to `output`."""
    resolved = results.resolved
    found = [
        macs
        for source in results.sources
        for macs in round_macs(source.rows, resolved, source.info.settings if source.info else {})
    ]
    order = {method: place for place, method in enumerate(results.methods)}
    found.sort(key=lambda macs: order[macs.method])
    fl_round = {}
    if resolved is not None:
        samples = sum(client.num_samples for client in resolved.clients) / len(resolved.clients)
        a_round = training_macs(resolved.model.macs_per_sample, samples, resolved.local_epochs)
        fl_round = {f"{resolved.model.name}, {samples:,.0f} samples": a_round}
    png, _ = save_figure(macs_figure(fl_round), output, "macs")
    return ["## Overhead of the selection", markdown_table([_record(m) for m in found]), _WORDS, f"![MACs]({png.name})"]


def _record(macs: RoundMacs) -> Record:
    ratio = macs.fl_per_rl
    return {
        "method": method_name(macs.method),
        "clients trained per round": f"{macs.participants:.2f}",
        "MACs, one pass": _count(macs.network),
        "RL training per round": _count(macs.rl_training),
        "FL training per round": "–" if macs.fl_training is None else power_of_ten(macs.fl_training),
        "RL : FL": "–" if ratio is None else f"1 : {ratio:,.0f}",
    }


def _count(macs: float | None) -> str:
    return "–" if macs is None else f"{macs:,.0f}"


_WORDS = f"""MACs of actor and critic, counted as in `python -m experiments.report --macs DIR`. Training is
samples × epochs × {TRAINING_FACTOR} × forward, RL with one sample per participating client and {RL_EPOCHS} epochs
unless set otherwise: it scales with the participants, so 10 % participation saves 90 %. A pass of the central networks
costs {central_ratio(20):.1f} times one of BIPPO's at 20 clients, {central_ratio(48):.1f} times at 48 and
{central_ratio(1000):.1f} times at 1,000."""
