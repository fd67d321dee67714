"""What `experiments.overhead` has to show, as ratios within one run."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from experiments.overhead.rows import BIPPO, STOCK, Measurement
from experiments.report.tables import Record

MIN_ROUNDS_FLAT = 500
"""Rounds it takes to call time and memory flat."""


@dataclass(frozen=True)
class Target:
    """A figure and the bound it is held against; `at_least` turns the bound round."""

    claim: str
    value: float
    bound: float
    unit: str = "×"
    at_least: bool = False

    @property
    def met(self) -> bool:
        return self.value >= self.bound if self.at_least else self.value <= self.bound

    def record(self) -> Record:
        """The cells of its line."""
        return {
            "target": self.claim,
            "measured": f"{self.value:.3g} {self.unit}" if self.value < 1000 else f"{self.value:,.0f} {self.unit}",
            "bound": f"{'≥' if self.at_least else '≤'} {self.bound:,g} {self.unit}",
            "met": "yes" if self.met else "no",
        }


def targets(rows: Sequence[Measurement]) -> list[Target]:
    """Every target that `rows` can judge; those whose cases were not measured are left out."""
    table = {(row.case.implementation, row.case.rule, row.case.num_clients): row for row in rows}
    found = list(_growth(table, "20"))
    for rule in dict.fromkeys(row.case.rule for row in rows):
        found += [*_against_stock(table, rule), *_against_kernel(table, rule), *_ten_thousand(table, rule)]
    for rule in dict.fromkeys(row.case.rule for row in rows):
        found += _sizes(table, rule)
    return found


Table = dict[tuple[str, str, int], Measurement]


def _growth(table: Table, rule: str) -> Iterator[Target]:
    few, many = table.get((BIPPO, rule, 20)), table.get((BIPPO, rule, 1000))
    if few and many:
        yield Target(f"learner, 1,000 clients : 20 clients, {rule} trained", many.learner_ms / few.learner_ms, 1.3)
        yield Target(f"RL time, 1,000 clients : 20 clients, {rule} trained", many.rl_ms / few.rl_ms, 4.0)


def _against_stock(table: Table, rule: str) -> Iterator[Target]:
    for clients, bound in ((300, 20.0), (1000, 60.0)):
        ours, stock = table.get((BIPPO, rule, clients)), table.get((STOCK, rule, clients))
        if ours and stock and rule == "10 %":
            claim = f"stock RLlib : BIPPO, {clients:,} clients, {rule} trained"
            yield Target(claim, stock.rl_ms / ours.rl_ms, bound, at_least=True)


def _against_kernel(table: Table, rule: str) -> Iterator[Target]:
    row = table.get((BIPPO, rule, 1000))
    if row and row.kernel_ms:
        yield Target(f"RL time : bare kernel, 1,000 clients, {rule} trained", row.rl_ms / row.kernel_ms, 40.0)


def _ten_thousand(table: Table, rule: str) -> Iterator[Target]:
    many, most = table.get((BIPPO, rule, 1000)), table.get((BIPPO, rule, 10_000))
    if many and most:
        yield Target(f"RL time, 10,000 clients : 1,000 clients, {rule} trained", most.rl_ms / many.rl_ms, 12.0)
        yield Target(f"memory, 10,000 clients, {rule} trained", most.resident_mib_last, 4096.0, "MiB")


def _sizes(table: Table, rule: str) -> Iterator[Target]:
    row = table.get((BIPPO, rule, 1000))
    if row is None:
        return
    where = f"1,000 clients, {rule} trained"
    yield Target(f"build, {where}", row.build_s, 5.0, "s")
    yield Target(f"checkpoint, {where}", row.checkpoint_s, 1.0, "s")
    yield Target(f"checkpoint, {where}", row.checkpoint_mib, 30.0, "MiB")
    if row.case.rounds >= MIN_ROUNDS_FLAT:
        rounds = f"last : first hundred of {row.case.rounds} rounds"
        yield Target(f"RL time, {rounds}, {where}", row.rl_ms_last / row.rl_ms_first, 1.1)
        yield Target(f"memory, {rounds}, {where}", row.resident_mib_last / row.resident_mib_first, 1.02)
