"""Tables as text, aligned for the terminal or Markdown, and texts of a user's in Markdown, shown as they are."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from experiments.results.naming import printable

Record = Mapping[str, str]
#: What is markup anywhere in a line, underscores that are not inside a word among it.
_MARKUP = re.compile(r"[\\`*<&$~|]|(?<![^\W_])_|_(?![^\W_])|(?<=\])(?=\()")


class Markdown(str):
    """A text that is Markdown already."""

    __slots__ = ()


def plain(text: str) -> str:
    """Returns Markdown that shows the text in one line; what is ``Markdown`` already comes back as it is."""
    return text if isinstance(text, Markdown) else _MARKUP.sub(lambda found: f"\\{found[0]}", printable(text))


def code(text: object) -> Markdown:
    """Returns a code span that shows the text in one line."""
    shown = printable(text)
    fence = "`" * (1 + max(map(len, re.findall("`+", shown)), default=0))
    padding = " " if shown.startswith("`") or shown.endswith("`") else ""
    return Markdown(f"{fence}{padding}{shown}{padding}{fence}")


def records_of(columns: Mapping[str, Sequence[str]]) -> list[Record]:
    """Returns one record per row of equally long columns."""
    return [dict(zip(columns, cells, strict=True)) for cells in zip(*columns.values(), strict=True)]


def text_table(records: Sequence[Record]) -> str:
    """Returns aligned columns under their headers; the first column to the left, the others to the right."""
    headers, *lines = [[printable(cell) for cell in line] for line in _lines(records)]
    widths = [max(map(len, column)) for column in zip(headers, *lines, strict=True)]
    ruled = (headers, ["-" * width for width in widths], *lines)
    aligned = ([f"{line[0]:<{widths[0]}}", *map(str.rjust, line[1:], widths[1:])] for line in ruled)
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
