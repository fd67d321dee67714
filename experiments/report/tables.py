"""Tables as text: aligned for the terminal, and Markdown."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

Record = Mapping[str, str]


def text_table(records: Sequence[Record]) -> str:
    """Aligned columns under their headers; the first column to the left, the others to the right."""
    headers = list(records[0])
    widths = {name: max(len(name), *(len(record[name]) for record in records)) for name in headers}

    def line(values: Mapping[str, str]) -> str:
        cells = [
            values[name].ljust(widths[name]) if name == headers[0] else values[name].rjust(widths[name])
            for name in headers
        ]
        return "   ".join(cells).rstrip()

    rule = "   ".join("-" * widths[name] for name in headers)
    return "\n".join([line({name: name for name in headers}), rule, *(line(record) for record in records)])


def markdown_table(records: Sequence[Record]) -> str:
    """The same as a Markdown table."""
    headers = list(records[0])
    lines = [
        headers,
        ["---"] + ["---:"] * (len(headers) - 1),
        *([record[name] for name in headers] for record in records),
    ]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)
