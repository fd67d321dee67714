"""Tables and code of the site fit a window of 1280 pixels without scrolling.

The limits are what fits Furo's text column with docs/static/site.css and the widest usual fonts (DejaVu), measured in
Chromium. On narrower windows docs/static/site.js shows a block for each row of a table that does not fit.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from source_tree import ROOT

PAGES = sorted((ROOT / "docs").glob("*.md"))
CODE_COLUMNS = 95
#: Characters of the longest word of each column, and one for each column.
TABLE_CHARACTERS = 112


def tables(page: str) -> list[list[list[str]]]:
    """The Markdown tables outside of code, as rows of cells without markup and link targets."""
    text = re.sub(r"^```.*?^```", "", page, flags=re.DOTALL | re.MULTILINE)
    blocks = re.findall(r"(?:^\|.*\n)+", text, flags=re.MULTILINE)
    plain = [re.sub(r"\]\([^)]*\)|[`*\[]", "", block) for block in blocks]
    return [[re.split(r"(?<!\\)\|", row.strip().strip("|")) for row in block.splitlines()] for block in plain]


def narrowest(table: list[list[str]]) -> int:
    """Characters of a table whose cells are broken wherever a browser may: after blanks but ± 0.1, hyphens, slashes."""
    head, _, *body = table
    columns = zip(head, *body, strict=True)
    return sum(
        1 + max(len(word) for cell in column for word in re.split(r"(?<!±)\s|(?<=[-/–])", cell)) for column in columns
    )


def test_a_table_is_as_wide_as_the_longest_words_of_its_columns():
    page = "| a | long words | [x](y.md) |\n|---|:---|---|\n| `b-cd` | e | 0.1 ± 0.2 |\n\n```\n| no | table |\n```\n"
    (table,) = tables(page)
    assert narrowest(table) == (2 + 1) + (5 + 1) + (5 + 1)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_tables_fit(page: Path):
    for table in tables(page.read_text(encoding="utf-8")):
        assert narrowest(table) <= TABLE_CHARACTERS, f"shorten or split the table that starts with {table[0]}"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_code_fits(page: Path):
    blocks = re.findall(r"^```(?:python|text)\n(.*?)^```", page.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)
    for line in "".join(blocks).splitlines():
        assert len(line) <= CODE_COLUMNS, line
