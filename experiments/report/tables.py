"""Tables as text: aligned for the terminal, and Markdown."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

Record = Mapping[str, str]


def records_of(columns: Mapping[str, Sequence[str]]) -> list[Record]:
    """Returns one record per row of equally long columns."""
    return [dict(zip(columns, cells, strict=True)) for cells in zip(*columns.values(), strict=True)]


def text_table(records: Sequence[Record]) -> str:
    """Returns aligned columns under their headers; the first column to the left, the others to the right."""
    headers = list(records[0])
    widths = [max(len(name), *(len(record[name]) for record in records)) for name in headers]

    def line(cells: Sequence[str]) -> str:
        first, *others = zip(cells, widths, strict=True)
        return "   ".join([first[0].ljust(first[1]), *(cell.rjust(width) for cell, width in others)]).rstrip()

    lines = [headers, ["-" * width for width in widths], *([record[name] for name in headers] for record in records)]
    return "\n".join(map(line, lines))


def markdown_table(records: Sequence[Record]) -> str:
    """Returns the same as a Markdown table."""
    headers = list(records[0])
    lines = [
        headers,
        ["---"] + ["---:"] * (len(headers) - 1),
        *([record[name] for name in headers] for record in records),
    ]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)
