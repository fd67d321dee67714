"""How methods are named and drawn in figures, and texts of users in figures."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import NamedTuple

from matplotlib.colors import to_hex, to_rgb
from matplotlib.font_manager import FontProperties, findfont, get_font

from envs.checks import printable
from experiments.methods import METHODS, is_reference
from experiments.report.metrics import MethodSummary, marked, short_setting
from experiments.results.naming import pluralize

GREY = "#555555"
_LONGEST = 60
#: Colours after Okabe-Ito and Tol, dashes and markers: as their numbers have no common factor, 1,463 methods differ.
_COLORS = (
    *("#0072B2", "#D55E00", "#7A3DB8", "#009E73", "#E69F00", "#CC79A7", "#000000", "#56B4E9", "#882255", "#999933"),
    *("#8C564B", "#44AA99", "#332288", "#CC6677", "#117733", "#DDCC77", "#AA4499", "#88CCEE", "#661100"),
)
_DASHES = ((), (5, 2), (1.5, 1.5), (8, 2, 1.5, 2), (3, 1.5), (8, 2, 1.5, 2, 1.5, 2), (12, 3))
_MARKERS = ("o", "s", "p", "^", "v", "D", "X", "P", "<", "h", "8")


class Style(NamedTuple):
    """Colour, dash pattern and marker of a method."""

    color: str
    dashes: tuple[float, ...]
    marker: str

    @property
    def lighter(self) -> Style:
        """The style of the same method in another study: half way to white, and dotted."""
        red, green, blue = to_rgb(self.color)
        return self._replace(color=to_hex(((1 + red) / 2, (1 + green) / 2, (1 + blue) / 2)), dashes=(1, 1.5))


REFERENCE_STYLE = Style(GREY, (5, 3), "")


def styles(summaries: Sequence[MethodSummary]) -> list[Style]:
    """Returns a style for each: that of the method, the same in every figure, or one for each setting of a search.

    Neighbours differ in colour, dashes and marker.
    """
    names = [summary.method for summary in summaries]
    if len(set(names)) < len(names):
        return [_style(index) for index in range(len(names))]
    known = list(dict.fromkeys([*METHODS, *names]))
    return [REFERENCE_STYLE if is_reference(name) else _style(known.index(name)) for name in names]


def _style(index: int) -> Style:
    return Style(_COLORS[index % len(_COLORS)], _DASHES[index % len(_DASHES)], _MARKERS[index % len(_MARKERS)])


def method_name(method: str) -> str:
    """Returns the name as papers print it: FedAvg for ``fedavg``, BIPPO for ``bippo``; a custom method as it is.

    A method with privileged information has a mark.
    """
    return marked(METHODS[method].title if method in METHODS else method, method)


def drawn_name(summary: MethodSummary) -> str:
    """Returns the method and its setting as figures write them."""
    return as_drawn(f"{method_name(summary.method)} {short_setting(summary.setting)}".strip())


def drawn_seeds(summary: MethodSummary) -> str:
    """Returns ``n = 3 seeds``."""
    return f"n = {pluralize(summary.num_seeds, 'seed')}"


def as_drawn(text: object, longest: int = _LONGEST) -> str:
    """Returns a user's text for Matplotlib to draw: no mathematics, and ``?`` for what the font lacks.

    Longer ones are cut. One that begins with an underscore, which Matplotlib leaves out of legends, gets a space.
    """
    drawn = "".join(sign if ord(sign) in _glyphs() else "?" for sign in printable(text))
    drawn = drawn if len(drawn) <= longest else f"{drawn[: longest - 1]}…"
    return f"{' ' * drawn.startswith('_')}{drawn}".replace("$", r"\$")


@cache
def _glyphs() -> frozenset[int]:
    """Returns the code points that the font of figures has."""
    return frozenset(get_font(findfont(FontProperties())).get_charmap())
