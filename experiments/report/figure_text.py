"""Texts of a user's in figures: drawn as they are, whatever they would mean to matplotlib."""

from __future__ import annotations

from functools import cache

from matplotlib.font_manager import FontProperties, findfont, get_font

from experiments.results.naming import printable

_LONGEST = 60
_NO_GLYPH = "?"


def as_drawn(text: object, longest: int = _LONGEST) -> str:
    """Returns a text for an artist: dollar signs are no mathematics, and what the font lacks is a question mark.

    Longer ones are cut. One that begins with an underscore, which matplotlib leaves out of legends, gets a space.
    """
    drawn = "".join(sign if ord(sign) in _glyphs() else _NO_GLYPH for sign in printable(text))
    drawn = drawn if len(drawn) <= longest else f"{drawn[: longest - 1]}…"
    drawn = f" {drawn}" if drawn.startswith("_") else drawn
    return drawn.replace("$", r"\$")


@cache
def _glyphs() -> frozenset[int]:
    """Code points of the font of figures."""
    return frozenset(get_font(findfont(FontProperties())).get_charmap())
