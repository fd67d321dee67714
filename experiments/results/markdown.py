"""Tables in Markdown."""

from __future__ import annotations

from collections.abc import Collection, Sequence


def markdown(rows: Sequence[Sequence[str]], right: Collection[int] = ()) -> str:
    """Returns a table of cells that are Markdown already; the first row is the header.

    Args:
        rows: Of equal length.
        right: Numbers of the columns that are aligned to the right, from 0.
    """
    rule = ["---:" if column in right else "---" for column in range(len(rows[0]))]
    return "\n".join(f"| {' | '.join(row)} |" for row in (rows[0], rule, *rows[1:]))
