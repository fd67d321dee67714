"""Tables as text: aligned for the terminal, and Markdown. Cells are shown as they are, but for ``Markdown`` ones."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from experiments.report.markdown import plain
from experiments.results.naming import printable

Record = Mapping[str, str]


def records_of(columns: Mapping[str, Sequence[str]]) -> list[Record]:
    """Returns one record per row of equally long columns."""
    return [dict(zip(columns, cells, strict=True)) for cells in zip(*columns.values(), strict=True)]


def text_table(records: Sequence[Record]) -> str:
    """Returns aligned columns under their headers; the first column to the left, the others to the right."""
    headers, *lines = [[printable(cell) for cell in line] for line in _lines(records)]
    widths = [max(map(len, column)) for column in zip(headers, *lines, strict=True)]
    aligned = [
        [
            cell.rjust(width) if place else cell.ljust(width)
            for place, (cell, width) in enumerate(zip(line, widths, strict=True))
        ]
        for line in (headers, ["-" * width for width in widths], *lines)
    ]
    return "\n".join("   ".join(line).rstrip() for line in aligned)


def markdown_table(records: Sequence[Record]) -> str:
    """Returns the same as a Markdown table."""
    headers, *lines = [[plain(cell) for cell in line] for line in _lines(records)]
    rule = ["---", *["---:"] * (len(headers) - 1)]
    return "\n".join(f"| {' | '.join(line)} |" for line in (headers, rule, *lines))


def _lines(records: Sequence[Record]) -> list[list[str]]:
    """The headers, and the cells of each record."""
    headers = list(records[0])
    return [headers, *([record[name] for name in headers] for record in records)]
