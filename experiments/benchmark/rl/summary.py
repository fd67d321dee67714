"""From what contestants have shown in turns to the rows of the file."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from typing import Any

from experiments.benchmark.measuring import median_ratio
from experiments.benchmark.rl.rows import BIPPO, Case, Measurement, Pair
from experiments.benchmark.rl.turns import Record

Turns = Sequence[Sequence[Pair]]
_MEDIANS = ("updates_per_round", "rl_ms", "forward_ms", "sampler_ms", "bookkeeping_ms", "learner_ms")


def measurements(records: Sequence[Record], fewest: Case) -> list[Measurement]:
    """A row for each of ``records`` that took turns with each other; ``fewest`` is what BIPPO's are compared with."""
    turns = {record.case: record.turns for record in records}
    return [_measurement(record, _bippo(records, record.case), turns.get(fewest, ())) for record in records]


def _bippo(records: Iterable[Record], case: Case) -> Turns:
    """BIPPO's turns with as many clients as in ``case``."""
    same = (BIPPO, case.num_clients)
    return next((one.turns for one in records if (one.case.implementation, one.case.num_clients) == same), ())


def _measurement(record: Record, bippo: Turns, small: Turns) -> Measurement:
    pairs = [pair for turn in record.turns for pair in turn]
    fifth = max(1, len(pairs) // 5)
    assert record.checkpoint is not None, "it has ended"
    medians: dict[str, Any] = {figure: _median(pairs, figure) for figure in _MEDIANS}
    compared: dict[str, Any]
    if record.case.implementation == BIPPO:
        compared = {
            "kernel_ms": _median(pairs, "kernel_ms"),
            "rl_to_kernel": ratio(record.turns, record.turns, other_figure="kernel_ms"),
            "rl_to_kernel_growth": _to_kernel(pairs[-fifth:]) / _to_kernel(pairs[:fifth]),
            "rl_to_fewest": ratio(record.turns, small),
            "learner_to_fewest": ratio(record.turns, small, "learner_ms", "learner_ms"),
        }
    else:
        compared = {"kernel_ms": None, "rl_to_bippo": ratio(record.turns, bippo)}
    return Measurement(
        case=record.case,
        build_s=record.build_s,
        **medians,
        **compared,
        **asdict(record.checkpoint),
        resident_mib_first=_median(pairs[:fifth], "resident_mib"),
        resident_mib_last=_median(pairs[-fifth:], "resident_mib"),
    )


def ratio(ones: Turns, others: Turns, figure: str = "rl_ms", other_figure: str = "rl_ms") -> float | None:
    """Median over the turns in which both ran of one's median divided by the other's; None if there is no such turn."""
    both = [(one, other) for one, other in zip(ones, others, strict=False) if one and other]
    if not both:
        return None
    return median_ratio([_median(one, figure) for one, _ in both], [_median(other, other_figure) for _, other in both])


def _to_kernel(pairs: Sequence[Pair]) -> float:
    return statistics.median(pair.rl_ms / pair.kernel_ms for pair in pairs if pair.kernel_ms)


def _median(pairs: Sequence[Pair], figure: str) -> float:
    return statistics.median(getattr(pair, figure) for pair in pairs)
