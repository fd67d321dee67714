"""What a benchmark found, and how it is printed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from experiments.report.numbers import MISSING
from experiments.report.tables import Record, text_table

#: Title -> text, number, or None where there is none.
Row = Mapping[str, str | float | None]


@dataclass(frozen=True)
class Result:
    """What a benchmark found."""

    heading: str  #: What was measured.
    rows: Sequence[Row]  #: The figures; all rows have the same titles.
    failures: Sequence[str] = ()  #: What is more than it may be, a sentence each.

    def __str__(self) -> str:
        """For a terminal."""
        table = text_table([as_text(row) for row in self.rows])
        return "\n".join([self.heading, "", table, *(f"error: {failure}" for failure in self.failures)])


def as_text(row: Row) -> Record:
    """The row's cells; what is no whole number has three significant figures, or no decimals from 100 on."""
    return {title: value if isinstance(value, str) else _number(value) for title, value in row.items()}


def _number(value: float | None) -> str:
    if value is None:
        return MISSING
    if isinstance(value, int) or value >= 99.95:
        return f"{value:,.0f}"
    return f"{value:#.3g}"
