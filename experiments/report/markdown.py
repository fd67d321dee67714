"""Texts of a user's in Markdown: shown as they are, whatever they would mean there."""

from __future__ import annotations

import re

from experiments.results.naming import printable

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
