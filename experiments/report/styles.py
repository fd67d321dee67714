"""How methods are named and drawn, and the rows of each of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import pandas as pd
from matplotlib.colors import to_hex, to_rgb

from experiments.methods import METHODS, is_reference
from experiments.report.figure_text import as_drawn
from experiments.report.metrics import marked, method_label, one_trial_per_seed, short_setting
from experiments.results.naming import pluralize

GREY = "#555555"
_NAMES = {
    **{name: name.upper() for name in ("bippo", "ippo", "ppo", "fppo", "bippo-r", "bippo-s")},
    **{"fedavg": "FedAvg", "poc": "PoC", "poca": "PoCA", "pocd": "PoC-d", "rep": "Rep", "oort": "Oort"},
    **{"cyclic": "Cyclic", "fedcbs": "Fed-CBS", "bandit": "Bandit", "greedyfed": "GreedyFed"},
    **{"hics": "HiCS-FL", "fedcor": "FedCor", "normfilter": "Norm filter"},
    **{"bippo-greedy": "BIPPO greedy", "ippo-odds": "IPPO odds"},
}


class Style(NamedTuple):
    """Colour, dash pattern and marker."""

    color: str
    dashes: tuple[float, ...]
    marker: str


#: Colours after Okabe-Ito and Tol, dashes and markers: as their numbers have no common factor, 1,463 methods differ.
_COLORS = (
    *("#0072B2", "#D55E00", "#7A3DB8", "#009E73", "#E69F00", "#CC79A7", "#000000", "#56B4E9", "#882255", "#999933"),
    *("#8C564B", "#44AA99", "#332288", "#CC6677", "#117733", "#DDCC77", "#AA4499", "#88CCEE", "#661100"),
)
_DASHES = ((), (5, 2), (1.5, 1.5), (8, 2, 1.5, 2), (3, 1.5), (8, 2, 1.5, 2, 1.5, 2), (12, 3))
_MARKERS = ("o", "s", "p", "^", "v", "D", "X", "P", "<", "h", "8")
#: Of a bound that is no method.
REFERENCE_STYLE = Style(GREY, (5, 3), "")


def style_at(place: int) -> Style:
    """Returns the style of the method at a place in a list; neighbours differ in colour, dashes and marker."""
    return Style(_COLORS[place % len(_COLORS)], _DASHES[place % len(_DASHES)], _MARKERS[place % len(_MARKERS)])


class Group(NamedTuple):
    """One method in one setting: its rows, one trial per seed, and how it is drawn."""

    method: str
    setting: str
    num_seeds: int
    rows: pd.DataFrame
    style: Style

    @property
    def label(self) -> str:
        """As it is written in a table."""
        return method_label(self.method, self.setting)

    @property
    def name(self) -> str:
        """As it is written in a figure."""
        return as_drawn(f"{method_name(self.method)} {short_setting(self.setting)}".strip())

    @property
    def seeds(self) -> str:
        """``n = 3 seeds``."""
        return f"n = {pluralize(self.num_seeds, 'seed')}"


def method_name(method: str) -> str:
    """Returns the printed name: FedAvg for ``fedavg``, BIPPO for ``bippo``; a custom method as it is.

    A method that is told what no real client would give away has a mark.
    """
    return marked(_NAMES.get(method, method), method)


def groups(rows: pd.DataFrame) -> list[Group]:
    """Returns one group per method and setting, in the order in which the rows name them."""
    found = {key: one_trial_per_seed(group) for key, group in rows.groupby(["method", "setting"], sort=False)}
    styles = _styles([method for method, _ in found])
    return [
        Group(method, setting, group["seed"].nunique(), group, style)
        for ((method, setting), group), style in zip(found.items(), styles, strict=True)
    ]


def _styles(names: Sequence[str]) -> list[Style]:
    """A style per name: that of the method's place among all methods, custom ones after them.

    Where every method stands twice, as in two studies, the second of it is lighter and dotted. Where methods stand more
    often, as in a search, each setting has the style of its place.
    """
    repeats = [names[:place].count(name) for place, name in enumerate(names)]
    if any(repeats) and any(names.count(name) != 2 for name in names):
        return [style_at(place) for place in range(len(names))]
    known = list(dict.fromkeys([*METHODS, *names]))
    own = {name: REFERENCE_STYLE if is_reference(name) else style_at(known.index(name)) for name in names}
    return [_lighter(own[name]) if again else own[name] for name, again in zip(names, repeats, strict=True)]


def _lighter(style: Style) -> Style:
    """Half way to white."""
    red, green, blue = to_rgb(style.color)
    return style._replace(color=to_hex(((1 + red) / 2, (1 + green) / 2, (1 + blue) / 2)), dashes=(1, 1.5))
